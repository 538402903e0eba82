"""Routers for rendering tests: every router in front of every engine it takes, and the sets of roles behind it."""

from dataclasses import dataclass
from typing import Any

import yaml

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.render.router import router_objects
from tests.render import build

Json = dict[str, Any]
SETS: list[Json] = build.cases("routers")
PAIRINGS = [
    ("llm-d-router", "vLLM"),
    ("llm-d-router", "SGLang"),
    ("vllm-router", "vLLM"),
    ("sglang-gateway", "SGLang"),
]
"""Each router with each engine it stands in front of."""


@dataclass(frozen=True)
class Routed:
    """One router in front of one set of roles."""

    router: str
    engine: str
    roles: Json

    @property
    def name(self) -> str:
        return f"{self.router} {self.engine} {self.roles['name']}"

    def resolved(self, router: Json | None = None, **options: Any) -> ResolvedDeployment:
        document = build.deployment(self.engine, self.roles["roles"], router={"name": self.router, **(router or {})})
        kind = build.instance_type(manufacturer=self.roles.get("manufacturer", "nvidia"))
        return build.resolved(document, [kind], **options)


MATRIX = [
    Routed(router, engine, roles)
    for router, engine in PAIRINGS
    for roles in SETS
    if engine in roles.get("engines", (engine,))
]


def routed(name: str, engine: str = "vLLM", roles: Any = ({},), router: Json | None = None, **options: Any) -> Json:
    """The router objects of a deployment by kind."""
    document = build.deployment(engine, roles, router={"name": name, **(router or {})})
    return by_kind(build.resolved(document, **options))


def by_kind(resolved: ResolvedDeployment) -> Json:
    return {one["kind"]: one for one in router_objects(resolved)}


def template(objects: Json) -> Json:
    return objects["Deployment"]["spec"]["template"]


def containers(objects: Json) -> Json:
    return {one["name"]: one for one in template(objects)["spec"]["containers"]}


def picker(objects: Json) -> Json:
    return yaml.safe_load(objects["ConfigMap"]["data"]["epp.yaml"])


def proxy(objects: Json) -> Json:
    return yaml.safe_load(objects["ConfigMap"]["data"]["envoy.yaml"])


def plugin(objects: Json, name: str) -> Json | None:
    """The parameters of one of the picker's plugins; None when it is not there."""
    found = [one for one in picker(objects)["plugins"] if one.get("name", one["type"]) == name]
    return found[0].get("parameters", {}) if found else None
