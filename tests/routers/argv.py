"""The two routers that read nothing but their command line, and what tests of both have in common."""

from dataclasses import dataclass
from typing import Any

import pytest

from gpustack_components.bindings.resolve import ResolvedDeployment
from sandbox.processes import wait_until
from tests.routers.engines import Engine
from tests.routers.site import Site

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One of the two routers."""

    name: str
    """`spec.router.name`."""
    engine: str
    """The engine it goes with."""
    metrics: tuple[str, ...]
    """Metrics that the sheet names (router sheet 16); they exist once it has served."""
    pair_metrics: tuple[str, ...] = ()
    """Those of a Prefill and a Decode role."""
    forgets: bool = False
    """Whether it drops a Pod that no longer matches its selector, and not only one that is being deleted."""

    def resolved(
        self, site: Site, roles: list[Json], name: str = "qwen", settings: Json | None = None, **fields: Any
    ) -> ResolvedDeployment:
        """A deployment with this router; it takes its engines in turn, so that a few requests reach all."""
        router = {"name": self.name, "extraArgs": ["--policy", "round_robin"], **fields}
        return site.resolved(self.engine, roles, router, name, settings)


ROUTERS = [
    Kind(
        "vllm-router",
        "vLLM",
        ("vllm_router_running_requests", "vllm_router_active_workers", "vllm_router_requests_total"),
        ("vllm_router_pd_requests_total",),
        forgets=True,
    ),
    Kind(
        "sglang-gateway",
        "SGLang",
        ("smg_worker_requests_active", "smg_worker_pool_size", "smg_router_requests_total", "smg_http_responses_total"),
    ),
]
each_router = pytest.mark.parametrize("router", ROUTERS, ids=[router.name for router in ROUTERS])


def serving(site: Site, engines: list[Engine], seconds: float = 20) -> bool:
    """Whether completions come from exactly these engines, and from each of them."""
    wanted = {engine.name for engine in engines}
    return wait_until(lambda: site.reached(3 * len(engines)) == wanted, seconds=seconds)
