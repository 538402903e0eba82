"""The five parts that are built from Go modules: what each is made of, and the key its pins give it in the cache.

A key changes with anything that could change the result: go.mod, go.sum, our sources, flags, and the Go toolchain. So
an upgrade is an edit of `parts/<name>/go.mod`, and a checkout of an older commit finds its older build again.
"""

import hashlib
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxError

SOURCES = Path(__file__).parent / "parts"
"""Folder with one pinned Go module per part."""


@dataclass(frozen=True)
class Stamp:
    """A version that a release build writes into the binary; clients refuse development builds."""

    module: str
    """The module whose pinned version is written."""
    variable: str
    """Full name of the Go variable that takes it."""
    major: str | None = None
    """Full name of the variable that takes the first number alone."""
    minor: str | None = None
    """Full name of the variable that takes the second number alone."""

    def flags(self, version: str) -> list[str]:
        """Linker flags that write the version."""
        major, minor, *_ = version.removeprefix("v").split(".")
        values = {self.variable: version, self.major: major, self.minor: minor}
        return [f"-X {variable}={value}" for variable, value in values.items() if variable]


@dataclass(frozen=True)
class Copied:
    """Files of a pinned module that a part needs beside its binary."""

    module: str
    """Module path, as in go.mod."""
    paths: tuple[str, ...]
    """Files or folders in the module."""
    into: str
    """Folder in the built part that receives them, under their last names."""


@dataclass(frozen=True)
class Part:
    """One part of the toolchain, built by one `go build`."""

    name: str
    """Name of its folder in `parts/` and in messages."""
    binary: str
    """File name of the program."""
    package: str
    """Go package that is built."""
    modules: Path = SOURCES
    """Folder that holds the folder of its Go module."""
    versions: tuple[Stamp, ...] = ()
    """Versions that are written into the binary at link time."""
    copied: tuple[Copied, ...] = ()
    """What else is taken from its modules."""

    @property
    def source(self) -> Path:
        """Folder of its Go module."""
        return self.modules / self.name

    def build_command(self, output: Path) -> list[str]:
        """The `go` command that builds it, to be run in `source`."""
        flags = ["-s", "-w", *(flag for stamp in self.versions for flag in stamp.flags(self.pinned(stamp.module)))]
        return ["go", "build", "-v", "-trimpath", "-ldflags", " ".join(flags), "-o", str(output), self.package]

    def pinned(self, module: str) -> str:
        """The version of a module that its go.mod requires, such as `v1.35.4`."""
        found = re.search(rf"^(?:require|\t)\s*{re.escape(module)} (v\S+)", (self.source / "go.mod").read_text(), re.M)
        if not found:
            raise SandboxError(f"{self.name}: {self.source / 'go.mod'} does not require {module}")
        return found.group(1)

    def key(self, go_version: str) -> str:
        """Name of the built part in the cache: `<part>-<hash>`."""
        digest = hashlib.sha256()
        for file in sorted(path for path in self.source.iterdir() if path.suffix in {".go", ".mod", ".sum"}):
            digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
        rest = (self.build_command(Path(self.binary)), self.copied, go_version, sys.platform, platform.machine())
        digest.update(repr(rest).encode())
        return f"{self.name}-{digest.hexdigest()[:16]}"


CONTROL_PLANE = Part(
    "controlplane",
    "controlplane",
    ".",
    versions=(
        Stamp(
            "k8s.io/kubernetes",
            "k8s.io/component-base/version.gitVersion",
            "k8s.io/component-base/version.gitMajor",
            "k8s.io/component-base/version.gitMinor",
        ),
    ),
)
KUEUE = Part(
    "kueue",
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    copied=(
        Copied(
            "sigs.k8s.io/kueue",
            (
                "config/components/crd/bases",
                "config/components/crd/kustomization.yaml",
                "config/components/webhook/manifests.yaml",
            ),
            "manifests",
        ),
    ),
)
KWOK = Part("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")
PULUMI = Part(
    "pulumi",
    "pulumi",
    "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    versions=(Stamp("github.com/pulumi/pulumi/pkg/v3", "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"),),
    copied=(
        Copied(
            "github.com/pulumi/pulumi/sdk/v3",
            ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python"),
            "bin",
        ),
    ),
)
KUBERNETES_PROVIDER = Part("kubernetes-provider", "pulumi-resource-kubernetes", ".")

PARTS = (CONTROL_PLANE, KUEUE, KWOK, PULUMI, KUBERNETES_PROVIDER)
"""All parts, in the order in which they are built."""


def cache_directory() -> Path:
    """Where built parts are kept: `$GPUSTACK_SANDBOX_CACHE`, else a folder of the user's cache directory."""
    override = os.environ.get("GPUSTACK_SANDBOX_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "gpustack-components" / "sandbox"
