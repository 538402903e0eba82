"""Where a document may hold a secret by mistake, so that what was found there is never repeated: in no sentence, in no
JSON.

A Secret is named in a document and never held in it; somebody who pastes a token in the place of its reference is told
where, and the token stays where it is.
"""

import re
from typing import Any, cast

from gpustack_components.api.paths import Location

HIDDEN = "(not shown: it may be a secret)"
"""Stands for a value that may be a secret."""

_REFERENCES = frozenset(("imagePullSecrets", "secret", "secretRef", "secretKeyRef"))
_WORDS = r"(?:token|password|passwd|passphrase|secret|credentials?|auth|(?:api|access|private|signing)[-_]?key)"
_TELLING = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
_ASSIGNED = re.compile(rf"""(?P<name>[\w-]*{_WORDS}(?:=|"\s*:\s*(?=")))(?:"[^"]*"|'[^']*'|[^\s"']+)""", re.IGNORECASE)
_FOLLOWED = re.compile(rf"""(?P<name>--[\w-]*{_WORDS}(?:\s+|"\s*,\s*"))(?!-)[^\s"']+""", re.IGNORECASE)
_USER = re.compile(r"""(?P<name>//)[^/@\s"']+(?=@)""")
_NAMES = frozenset(("artifactRef", "poolRef"))


def hides(location: Location) -> bool:
    """Whether what stands at a location may be a secret: a reference to one, the value of a variable, or a field whose
    name says so."""
    for index, step in enumerate(location):
        if not isinstance(step, str) or step in _NAMES:
            continue
        if step in _REFERENCES or _TELLING.search(step):
            return True
        if step == "env":
            return location[index + 2 :] != ("name",)
    return False


def telling(name: str) -> bool:
    """Whether the name of a variable or a flag says that its value is a secret: `HF_TOKEN`, `--api-key`."""
    return _TELLING.search(name) is not None


def concealed_text(text: str) -> str:
    """The text of an argument, a variable or a document without what is assigned in it to a telling name or stands as
    the user of a URL."""
    for pattern in (_ASSIGNED, _FOLLOWED, _USER):
        text = pattern.sub(rf"\g<name>{HIDDEN}", text)
    return text


def concealed(location: Location, value: Any) -> Any:
    """The value at a location without the text in it that may be a secret."""
    if isinstance(value, str) and hides(location):
        return HIDDEN
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {key: concealed((*location, str(key)), one) for key, one in fields.items()}
    if isinstance(value, list | tuple):
        entries = cast("list[Any]", value)
        return [concealed((*location, index), one) for index, one in enumerate(entries)]
    return value
