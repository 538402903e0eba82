"""Where images may come from, and how firmly they must be named."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpustack_components.api.model_deployment import ModelDeploymentSpec

DEFAULT_REGISTRY = "docker.io"

_DIGEST = re.compile(r"^[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}$")


@dataclass(frozen=True, slots=True)
class Image:
    """A container image reference taken apart as container runtimes do."""

    repository: str
    """Registry and path, e.g. `docker.io/vllm/vllm-openai`."""
    tag: str
    """Tag; empty when there is none."""
    digest: str
    """Digest with its algorithm; empty when there is none."""

    @classmethod
    def parse(cls, reference: str) -> "Image":
        """Take a reference apart; the default registry and its `library` path are filled in."""
        rest, _, digest = reference.partition("@")
        name, colon, tag = rest.rpartition(":")
        if not colon or "/" in tag:
            name, tag = rest, ""
        first, slash, path = name.partition("/")
        if not slash or not ("." in first or ":" in first or first == "localhost"):
            path = name if slash else f"library/{name}"
            first = DEFAULT_REGISTRY
        return cls(f"{first}/{path}", tag, digest)

    @property
    def floats(self) -> bool:
        """Whether the reference means another image tomorrow by design: no digest, and no tag or `latest`."""
        return not self.digest and self.tag in ("", "latest")

    @property
    def pinned(self) -> bool:
        """Whether a well-formed digest pins it."""
        return bool(_DIGEST.match(self.digest))

    def within(self, allowed: Sequence[str]) -> bool:
        """Whether it lies under one of the registries or paths, compared by whole path segments."""
        return any(f"{self.repository}/".startswith(f"{one.strip('/')}/") for one in allowed)


def images_of(spec: ModelDeploymentSpec) -> Iterator[tuple[str, str]]:
    """Field path and reference of every image a deployment names."""
    yield "spec.engine.image", spec.engine.image
    if spec.router is not None and spec.router.image:
        yield "spec.router.image", spec.router.image
    for index, role in enumerate(spec.roles):
        if role.image:
            yield f"spec.roles[{index}].image", role.image
