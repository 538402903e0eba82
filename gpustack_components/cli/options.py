"""Options that several commands share, so that they read and behave the same everywhere."""

from typing import Annotated

import typer

Files = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="A YAML or JSON file of documents, a folder or a quoted glob of such files, or `-` for standard input. "
        "Repeat it for several.",
        show_default=False,
    ),
]
SettingsFile = Annotated[
    str | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Settings that differ from their defaults, as a YAML mapping.",
        show_default=False,
    ),
]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Read InstanceTypes, KV cache pools and artifacts that the files do not declare from the cluster.",
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig to use, instead of KUBECONFIG or ~/.kube/config.",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="The kubeconfig's context to use, instead of its current one.",
        show_default=False,
    ),
]
KubernetesVersion = Annotated[
    str,
    typer.Option("--kubernetes-version", metavar="MAJOR.MINOR", help="The version of the cluster the objects are for."),
]
RuntimeClasses = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime-class",
        metavar="NAME",
        help="A RuntimeClass the cluster has; Pods name their manufacturer's only if it exists. Repeat it for several.",
        show_default=False,
    ),
]
WithoutOperator = Annotated[
    bool,
    typer.Option(
        "--without-operator",
        help="The cluster has no GPUStack operator: slices and partitions then state the units they are charged for.",
    ),
]
