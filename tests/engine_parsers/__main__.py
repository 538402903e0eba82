"""Asks the real argument parsers of vLLM, SGLang and the routers about every command line we read or render.

Their answers become tests/data/engine_parsers/answers/*.yaml, which the ordinary tests compare with our readings.
Needs the package registry, 15 GiB of disk for a while, and ten minutes or more.
"""

import argparse
import sys

from tests.engine_parsers import answers, command_lines
from tests.engine_parsers.environment import ENVIRONMENTS, Unavailable


def main() -> int:
    """Ask the parsers named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine_parsers", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(ENVIRONMENTS)}; all by default")
    parser.add_argument("--keep", action="store_true", help="keep the installed packages (vllm: 9.4 GB) in the cache")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in ENVIRONMENTS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(ENVIRONMENTS)}")
    failed = False
    for name in options.names or ENVIRONMENTS:
        environment = ENVIRONMENTS[name]
        print(f"{name}: {' '.join(environment.requirements)} in {environment.folder} ...", file=sys.stderr, flush=True)
        try:
            environment.install()
            question = command_lines.question(name)
            print(f"wrote {answers.write(name, question, environment.ask(question))}")
        except Unavailable as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
        finally:
            if not options.keep:
                environment.remove()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
