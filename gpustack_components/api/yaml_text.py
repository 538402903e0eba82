"""Writing YAML that every reader takes for the same values: the counterpart of `api.load`."""

import re
from functools import cache
from typing import IO, Any, Literal

_NEVER_WRAP = 2**31 - 1


def write_yaml(value: Any, stream: IO[str]) -> None:
    """Write one document, as fast as the YAML library can."""
    _dump(value, stream, "CSafeDumper")


def yaml_text(value: Any) -> str:
    """One document as text that is the same on every machine, whether or not its YAML library is compiled."""
    return _dump(value, None, "SafeDumper")


def _dump(value: Any, stream: IO[str] | None, dumper: Literal["CSafeDumper", "SafeDumper"]) -> Any:
    write: Any = _yaml().dump
    return write(value, stream, Dumper=_dumper(dumper), sort_keys=False, allow_unicode=True, width=_NEVER_WRAP)


def _yaml() -> Any:
    import yaml

    return yaml


def _always(*_: Any) -> bool:
    return True


@cache
def _dumper(name: str) -> Any:
    """A dumper whose texts stay texts in every YAML reader: Go's takes `1e3` for a number, PyYAML does not."""
    yaml = _yaml()
    base: Any = getattr(yaml, name, yaml.SafeDumper)
    dumper: Any = type("TextKeepingDumper", (base,), {"ignore_aliases": _always})
    ambiguous = re.compile(
        r"[-+.]?[0-9][-+0-9a-fxotz_.: ]*|[-+]?\.(inf|nan)|y|n|yes|no|on|off|true|false|null|~|", re.IGNORECASE
    )

    def text(writer: Any, value: str) -> Any:
        style = "|" if "\n" in value else '"' if ambiguous.fullmatch(value) else None
        return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    dumper.add_representer(str, text)
    return dumper
