"""Readings of an engine's command line: owned flags, listen flags, served names and parallelism (api sheet 4)."""

from gpustack_components.api.command_line.flags import (
    artifact_argument,
    dtype_argument,
    entry_name,
    last_occurrence,
    names_flag,
    own_port,
    owned_argument,
    read_integer,
    resolve_flag,
    scheme,
    served_names,
    ssl_cert_reqs,
)
from gpustack_components.api.command_line.owned import (
    ARTIFACT_ENVIRONMENT,
    OWNED_ENVIRONMENT,
    ROUTER_ARGUMENTS,
    ROUTER_ENGINES,
)
from gpustack_components.api.command_line.parallelism import (
    BalanceShape,
    Parallelism,
    ParallelismError,
    Variable,
    read_parallelism,
)

__all__ = [
    "ARTIFACT_ENVIRONMENT",
    "OWNED_ENVIRONMENT",
    "ROUTER_ARGUMENTS",
    "ROUTER_ENGINES",
    "BalanceShape",
    "Parallelism",
    "ParallelismError",
    "Variable",
    "artifact_argument",
    "dtype_argument",
    "entry_name",
    "last_occurrence",
    "names_flag",
    "own_port",
    "owned_argument",
    "read_integer",
    "read_parallelism",
    "resolve_flag",
    "scheme",
    "served_names",
    "ssl_cert_reqs",
]
