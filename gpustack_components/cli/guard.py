"""How a command ends: exit codes, the errors that become one, and the guard that keeps tracebacks away from users."""

import errno
import functools
import os
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import ParamSpec

import typer

DEBUG_VARIABLE = "GPUSTACK_DEBUG"
"""Environment variable that, set to anything but an empty text or 0, makes an internal error show its traceback."""

ISSUES = "https://github.com/gpustack/gpustack-components/issues"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

Params = ParamSpec("Params")


class ExitCode(IntEnum):
    """The exit codes other tools may rely on (design, section 8)."""

    DONE = 0
    """Accepted, rendered, found."""
    REFUSED = 1
    """The input is refused; of `status`: no such deployment."""
    UNUSABLE = 2
    """Unreadable input or wrong usage: nothing was judged."""
    RENDER_FAILED = 3
    """The input is accepted but cannot be rendered with these bindings."""
    CLUSTER = 4
    """The cluster cannot be reached, or does not let this identity read what the command needs."""
    INTERNAL = 70
    """A defect of this program (EX_SOFTWARE)."""
    OUTPUT_FAILED = 74
    """The output could not be written, for example on a full disk (EX_IOERR)."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output went away, as in `| head` (128 + SIGPIPE)."""


class CommandError(Exception):
    """Ends a command with sentences on standard error and an exit code."""

    def __init__(self, *sentences: str, code: ExitCode = ExitCode.UNUSABLE) -> None:
        super().__init__("\n".join(sentences))
        self.sentences: Sequence[str] = sentences
        """What went wrong and the way out, one sentence each."""
        self.code = code
        """The exit code; unusable input by default."""


def guarded(command: Callable[Params, ExitCode | None]) -> Callable[Params, None]:
    """A command whose every ending is an exit code of the contract, never a traceback."""

    @functools.wraps(command)
    def run(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except CommandError as failure:
            for sentence in failure.sentences:
                complain(sentence)
            raise typer.Exit(failure.code) from None
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            _forget_stdout()
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        except OSError as failure:
            if failure.errno not in _FULL:
                _report_defect(failure)
                raise typer.Exit(ExitCode.INTERNAL) from None
            _forget_stdout()
            complain(f"the output cannot be written: {failure.strerror}")
            raise typer.Exit(ExitCode.OUTPUT_FAILED) from None
        except Exception as defect:
            _report_defect(defect)
            raise typer.Exit(ExitCode.INTERNAL) from None
        raise typer.Exit(code or ExitCode.DONE)

    return run


def complain(sentence: str) -> None:
    """Write one sentence to standard error, marked as this program's."""
    typer.echo(f"gpustack-components: {sentence}", err=True)


def _forget_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return


def _report_defect(defect: Exception) -> None:
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        import traceback

        typer.echo("".join(traceback.format_exception(defect)), err=True)
    complain(f"internal error: {type(defect).__name__}: {defect}")
    complain(
        f"this is a defect of gpustack-components; please report it at {ISSUES} with the command, its input "
        f"and what the same command prints under {DEBUG_VARIABLE}=1"
    )
