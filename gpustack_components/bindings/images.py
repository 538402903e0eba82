"""Images the settings name: where they are pulled from, and how often (router sheet 7)."""

from gpustack_components.bindings.settings import Settings

_LOCAL = "localhost"


def redirected(image: str, settings: Settings) -> str:
    """The image of a setting, pulled from the mirror the settings name.

    One that names a registry of its own is left as it is; an image of a deployment's own never comes here.
    """
    head, slash, rest = image.partition("/")
    if slash and _is_registry(head):
        return image
    if slash and settings.container_namespace:
        image = f"{settings.container_namespace}/{rest}"
    return f"{settings.container_registry}/{image}" if settings.container_registry else image


def _is_registry(segment: str) -> bool:
    return "." in segment or ":" in segment or segment == _LOCAL


def pull_policy(image: str) -> str:
    """What Kubernetes itself takes for an image without a policy: a tag that moves is pulled every time."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    moves = not digest and (not colon or tag == "latest")
    return "Always" if moves else "IfNotPresent"
