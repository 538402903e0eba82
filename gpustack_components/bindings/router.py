"""The router with nothing left to look up: its images, and the one port it dials on every role (router sheet 5, 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack_components.bindings.failure import RenderFailure
from gpustack_components.bindings.images import pull_policy, redirected
from gpustack_components.bindings.settings import Settings
from gpustack_components.bindings.shape import PICKER

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import Router
    from gpustack_components.bindings.resolved import ResolvedRole


@dataclass(frozen=True, slots=True)
class ResolvedRouter:
    """`spec.router` with its images, pull policies and the roles' serving port."""

    declared: "Router"
    """The router as declared."""
    image: str
    """Image of the picker, or of the argv router."""
    image_pull_policy: str
    """Pull policy of that image; never empty."""
    proxy_image: str
    """Image of the proxy in front of the picker; other routers have none and leave it empty."""
    proxy_pull_policy: str
    """Pull policy of the proxy's image; empty beside an empty image."""
    serving_port: int
    """The port every role serves on, which the router dials."""

    @property
    def name(self) -> str:
        """Which router it is, as `spec.router.name` spells it."""
        return self.declared.name

    @property
    def picks(self) -> bool:
        """Whether it is an endpoint picker behind a proxy, configured by a ConfigMap."""
        return self.declared.name == PICKER

    @property
    def replicas(self) -> int:
        """Copies of the router; 1 when unstated."""
        return 1 if self.declared.replicas is None else self.declared.replicas


def resolve_router(
    router: "Router", roles: "Sequence[ResolvedRole]", settings: Settings
) -> "ResolvedRouter | RenderFailure":
    """The router in front of these roles, or why it can reach none of them."""
    ports = sorted({role.listening.serving.number for role in roles})
    if len(ports) != 1:
        served = " and ".join(map(str, ports))
        return RenderFailure(
            "",
            f"spec.router: {router.name} dials one port on every role, and these serve on {served}; give every role "
            "the same first port, or the same --port",
        )
    image = router.image or redirected(settings.model_deployment_router_image, settings)
    proxy = redirected(settings.model_deployment_router_proxy_image, settings) if router.name == PICKER else ""
    stated = router.image_pull_policy
    return ResolvedRouter(
        declared=router,
        image=image,
        image_pull_policy=stated or pull_policy(image),
        proxy_image=proxy,
        proxy_pull_policy=(stated or pull_policy(proxy)) if proxy else "",
        serving_port=ports[0],
    )
