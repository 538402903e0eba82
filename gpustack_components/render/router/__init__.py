"""The router in front of a deployment as manifests (router sheet 4 to 9, 14): `router_objects` is the door.

`picker_document` and `proxy_document` configure llm-d-router, `arguments` the two routers that read a command line,
`discovery` says which engine Pods each of them finds, and `contract` what is published about it.
"""

from gpustack_components.render.router.stack import router_objects

__all__ = ["router_objects"]
