"""What the stack's configuration decides: manifests, settings, timeouts, and the cluster.

`gpustack-components:manifests` is a path, folder or glob, or a list of them; `gpustack-components:adopt` lists former
owners (after a stack was renamed, say); `gpustack-components:settings` and `gpustack-components:timeouts` are mappings.
The cluster is the one pulumi-kubernetes would use: `kubernetes:kubeconfig` and `kubernetes:context`, else the ambient
one.
"""

import json
from typing import Any, cast

import pulumi
from pulumi.runtime.config import CONFIG, get_config

NAMESPACE = "gpustack-components"
KUBECONFIG_KEY = "kubernetes:kubeconfig"
CONTEXT_KEY = "kubernetes:context"
KEYS = ("adopt", "manifests", "settings", "timeouts")
"""What the namespace configures."""


def unknown() -> list[str]:
    """One sentence for each key of the namespace that configures nothing. Raises `pulumi.RunError` when one is nearly a
    key that does: what it was meant to change would silently stay as it is.
    """
    keys = sorted(key.removeprefix(f"{NAMESPACE}:") for key in CONFIG.get() if key.startswith(f"{NAMESPACE}:"))
    strange = [key for key in keys if key not in KEYS]
    if not strange:
        return []
    from gpustack_components.api.wording import closest

    meant = {key: closest(key, KEYS) for key in strange}
    if any(meant.values()):
        wrong = [f"{NAMESPACE}:{key} configures nothing{near}" for key, near in meant.items() if near]
        raise pulumi.RunError("\n".join((*wrong, "set that key instead, and remove this one with `pulumi config rm`")))
    return [f"{NAMESPACE}:{key} configures nothing and is ignored; known are {', '.join(KEYS)}" for key in strange]


def adopted() -> list[str]:
    """Former owners whose objects this stack takes over (`gpustack-components:adopt`); empty when it is not set.

    Raises `pulumi.RunError` when it is no list.
    """
    text = get_config(f"{NAMESPACE}:adopt")
    value: Any = _value(text) if text else []
    if not isinstance(value, list):
        raise pulumi.RunError(
            f"{NAMESPACE}:adopt must be a list of former owners, found {text}; set it with "
            f"`pulumi config set --path '{NAMESPACE}:adopt[0]' 'pulumi stack ORGANISATION/PROJECT/STACK'`"
        )
    return [str(one) for one in cast("list[Any]", value)]


def manifests() -> list[str]:
    """Paths, folders and globs of the manifests to deploy. Raises `pulumi.RunError` when none are configured or they
    cannot be read as such.
    """
    unknown()
    text = get_config(f"{NAMESPACE}:manifests")
    if not text:
        raise pulumi.RunError(
            "no manifests are configured; name them with "
            f"`pulumi config set {NAMESPACE}:manifests 'deployments/*.yaml'` "
            "(a path, folder or glob, or a JSON list of them)"
        )
    value = _value(text) if text.lstrip().startswith(("[", '"')) else text
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, str) and one for one in values):
        raise pulumi.RunError(f"{NAMESPACE}:manifests must be a path, folder or glob, or a list of them, found {text}")
    return [str(one) for one in values]


def mapping(key: str) -> dict[str, Any]:
    """The mapping under `gpustack-components:<key>`; empty when it is not set. Raises `pulumi.RunError` when it is no
    mapping.
    """
    text = get_config(f"{NAMESPACE}:{key}")
    if not text:
        return {}
    value = _value(text)
    if not isinstance(value, dict):
        raise pulumi.RunError(
            f"{NAMESPACE}:{key} must be a mapping, found {text}; set single entries with "
            f"`pulumi config set --path '{NAMESPACE}:{key}.NAME' VALUE`"
        )
    return {str(name): entry for name, entry in cast("dict[Any, Any]", value).items()}


def configured_cluster() -> tuple[str | None, str | None]:
    """Kubeconfig (path or text) and context of the stack's configuration, None where it does not say."""
    return get_config(KUBECONFIG_KEY) or None, get_config(CONTEXT_KEY) or None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
