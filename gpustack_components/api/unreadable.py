"""What is raised for text that holds no document."""

from typing import Any


class UnreadableInput(Exception):  # noqa: N818
    """Text that is no YAML or JSON, or no document; `str()` is one line with source, line and column."""

    def __init__(self, source: str, problem: str, line: int | None = None, column: int | None = None) -> None:
        self.source = source
        """Where the text came from."""
        self.problem = problem
        """What is wrong and the way out."""
        self.line = line
        """Line of the problem, from 1; None when it concerns the whole text."""
        self.column = column
        """Column of the problem, from 1; None when not known."""
        place = "".join(f":{number}" for number in (line, column) if number is not None)
        super().__init__(f"{source}{place}: {problem}")

    def __reduce__(self) -> tuple[Any, ...]:
        return UnreadableInput, (self.source, self.problem, self.line, self.column)
