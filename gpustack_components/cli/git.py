"""Reading a file as a Git revision holds it, for `check --old` and `render --diff`."""

import os
import shutil
import subprocess
from pathlib import Path

from gpustack_components.cli.guard import CommandError

PREFIX = "git:"


def require(revision: str) -> None:
    """Raise `CommandError` with a sentence when Git, the repository or the revision is missing."""
    source = f"{PREFIX}{revision}"
    if not revision or revision.startswith("-"):
        raise CommandError(
            f"{source}: {revision!r} is no Git revision; "
            "write git:REF:path, for example git:origin/main:deployments/qwen.yaml"
        )
    _git(source, "rev-parse", "--is-inside-work-tree", because="the current directory is not inside a Git work tree")
    unknown = f"this repository has no revision {revision!r}; fetch it first, for example `git fetch origin main`"
    _git(source, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", because=unknown)


def read_at(revision: str, path: str) -> bytes:
    """The content of the file at a revision that exists; the path is relative to the current directory.

    Raises `CommandError` with a sentence when the revision does not hold the file.
    """
    return _git(
        f"{PREFIX}{revision}:{path}",
        "cat-file",
        "blob",
        f"{revision}:{_from_here(path)}",
        because=f"revision {revision!r} holds no file {path!r}; the path is relative to the current directory",
    )


def exists_at(revision: str, path: str) -> bool:
    """Whether a revision that exists holds the file."""
    try:
        _git(path, "cat-file", "-e", f"{revision}:{_from_here(path)}", because="not there")
    except CommandError:
        return False
    return True


def files_below(revision: str, folder: str) -> list[str]:
    """The files that a revision that exists holds in a folder and below; none when it has no such folder."""
    try:
        listed = _git(folder, "ls-tree", "-r", "-z", "--name-only", revision, "--", folder, because="not there")
    except CommandError:
        return []
    return [os.fsdecode(one) for one in listed.split(b"\0") if one]


def _from_here(path: str) -> str:
    given = Path(path)
    if given.is_absolute():
        try:
            given = given.relative_to(Path.cwd())
        except ValueError:
            return path
    return f"./{given.as_posix()}"


def _git(source: str, *arguments: str, because: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise CommandError(
            f"{source}: git is not on PATH; install it, or save the old document to a file and name that file"
        )
    done = subprocess.run([git, *arguments], capture_output=True, check=False)  # noqa: S603 - never a shell
    if done.returncode:
        raise CommandError(f"{source}: {because}")
    return done.stdout
