"""Who selects whom (router sheet 4, 6.4, 8, 13): every selector of a deployment finds its own Pods and no others.

Beside it stand deployments of similar names in the same namespace and of the same name in another.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack_components.admission.review import review_all
from gpustack_components.api.encode import encode
from gpustack_components.api.model_deployment import ElasticEP, ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import ResolvedDeployment, resolve
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from gpustack_components.render.router.discovery import endpoint_selector, role_labels, shared_labels
from gpustack_components.render.services import front_services
from gpustack_components.status.resolved import router as published_contract
from tests.render import build, routers

Json = dict[str, Any]
Seat = tuple[str, str, str, int, int]
"""Namespace, deployment, role, ordinal and member of an engine Pod; a router Pod has the role `(router)`."""

WORLD = Bindings.of([build.instance_type()], complete=True)
NAMES = st.sampled_from(["a", "a-b", "a-router", "b", "router", "a-r0", "a" * 50, "a" * 56])
ROLE_NAMES = ["a", "b", "r0", "router", "b-r0", "b-router", "c" * 7, "prefill", "decode", "encode"]
ROUTER = "(router)"
EXTERNAL = ["-dp=2", "--data-parallel-rank=$(GPUSTACK_MEMBER_INDEX)"]


@st.composite
def roles(draw: st.DrawFn) -> list[Json]:
    kinds = draw(
        st.one_of(
            st.lists(st.just("Server"), min_size=1, max_size=4),
            st.sampled_from([["Prefill", "Decode"], ["Encode", "Prefill", "Decode"], ["Prefill"], ["Decode"]]),
        )
    )
    named = draw(st.lists(st.sampled_from(ROLE_NAMES), min_size=len(kinds), max_size=len(kinds), unique=True))
    found: list[Json] = []
    for name, kind in zip(named, kinds, strict=True):
        size = draw(st.integers(1, 2))
        role: Json = {"name": name, "kind": kind, "size": size, "replicas": draw(st.integers(1, 2))}
        if kind == "Server" and size == 2 and draw(st.booleans()):
            role["extraArgs"] = EXTERNAL
        elif draw(st.integers(0, 4)) == 0:
            role["command"] = ["serve"]
        found.append(role)
    return found


DEPLOYMENTS = st.lists(
    st.builds(
        lambda name, namespace, roles, router: build.merged(
            encode(build.deployment(roles=roles, name=name, **({"router": {"name": router}} if router else {}))),
            {"metadata": {"namespace": namespace}},
        ),
        NAMES,
        st.sampled_from(["team-a", "team-b"]),
        roles(),
        st.sampled_from([None, "llm-d-router", "vllm-router", "vllm-router"]),
    ),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True)
class Pod:
    """A Pod of the world: who it is, and what selectors see of it."""

    seat: Seat
    labels: Json

    @property
    def namespace(self) -> str:
        return self.seat[0]


@dataclass
class World:
    """Accepted deployments with all their Pods, the eligible ones labelled."""

    deployments: list[ResolvedDeployment]

    @cached_property
    def pods(self) -> list[Pod]:
        return [pod for one in self.deployments for pod in pods_of(one)]

    def found(self, namespace: str, matches: Callable[[Json], bool]) -> set[Seat]:
        return {pod.seat for pod in self.pods if pod.namespace == namespace and matches(pod.labels)}


def pods_of(one: ResolvedDeployment) -> Iterable[Pod]:
    for role in one.roles:
        for ordinal in range(role.replicas):
            for member, manifest in enumerate(render_replica(one, role, ordinal).members):
                labels = dict(manifest["metadata"]["labels"])
                if (role.name, ordinal, member) in answering(one):
                    labels["modeldeployment.gpustack.ai/endpoint-eligible"] = "true"
                yield Pod((one.namespace, one.name, role.name, ordinal, member), labels)
    for manifest in router_objects(one):
        if manifest["kind"] == "Deployment":
            labels = manifest["spec"]["template"]["metadata"]["labels"]
            yield Pod((one.namespace, one.name, ROUTER, 0, 0), labels)


def answering(one: ResolvedDeployment) -> set[tuple[str, int, int]]:
    """Members that answer: the leader, or all of a server with external data parallelism."""
    return {
        (role.name, ordinal, member)
        for role in one.roles
        for ordinal in range(role.replicas)
        for member in range(role.size if external(role) else 1)
    }


def external(role: Any) -> bool:
    return EXTERNAL[1] in role.declared.extra_args


def has_all(labels: Json) -> Callable[[Json], bool]:
    return lambda found: labels.items() <= found.items()


def matching(selector: str) -> Callable[[Json], bool]:
    """A label selector as the API server reads it."""

    def holds(labels: Json) -> bool:
        for term in selector.split(","):
            key, unequal, value = re.fullmatch(r"!?([^!=]+)(!?=)?(.*)", term).groups()  # type: ignore[union-attr]
            if term.startswith("!"):
                good = key not in labels
            elif unequal == "!=":
                good = labels.get(key) != value
            else:
                good = labels.get(key) == value
            if not good:
                return False
        return True

    return holds


def seats(one: ResolvedDeployment, wanted: Iterable[tuple[str, int, int]]) -> set[Seat]:
    return {(one.namespace, one.name, *seat) for seat in wanted}


def leaders(one: ResolvedDeployment, *kinds: str) -> set[tuple[str, int, int]]:
    found = [role for role in one.roles if not kinds or role.kind in kinds]
    return {(role.name, ordinal, 0) for role in found for ordinal in range(role.replicas)}


def accepted(raws: list[Json], **options: Any) -> World:
    """The deployments that stand together; those that admission refuses beside the others are left out."""
    verdicts = review_all(raws, old={}, bindings=WORLD, settings=Settings())
    documents = [one.document for one in verdicts if isinstance(one.document, ModelDeployment)]
    chosen = Settings.from_mapping(options)
    found = [resolve(document, WORLD, chosen).resolved for document in documents]
    return World([one for one in found if one is not None])


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(DEPLOYMENTS, st.booleans())
def test_every_selector_finds_its_own_and_no_stranger(raws: list[Json], qualified: bool) -> None:
    world = accepted(raws, **{"model-deployment-endpoint-qualification": qualified})
    for one in world.deployments:
        services = {service["metadata"]["name"]: service["spec"]["selector"] for service in front_services(one)}
        for role in one.roles:
            of_role = {seat for seat in answering(one) if seat[0] == role.name}
            assert world.found(one.namespace, has_all(services[f"{one.name}-{role.name}"])) == seats(one, of_role)
            for ordinal in range(role.replicas):
                headless = render_replica(one, role, ordinal).service
                assert (headless is not None) == (role.size > 1)
                if headless:
                    everybody = {(role.name, ordinal, member) for member in range(role.size)}
                    selector = headless["spec"]["selector"]
                    assert world.found(one.namespace, has_all(selector)) == seats(one, everybody)
        assert services[one.name] == services[f"{one.name}-{one.roles[0].name}"]
        if one.router is not None:
            judge_router(world, one, qualified)


def judge_router(world: World, one: ResolvedDeployment, qualified: bool) -> None:
    own = {(one.namespace, one.name, ROUTER, 0, 0)}
    objects = routers.by_kind(one)
    deployed = objects["Deployment"]["spec"]["selector"]["matchLabels"]
    assert world.found(one.namespace, has_all(deployed)) == own
    assert world.found(one.namespace, has_all(objects["Service"]["spec"]["selector"])) == own
    every = qualified and all(role.kind in ("Server", "Decode") and not role.take_over for role in one.roles)
    reached = seats(one, answering(one) if every else leaders(one))
    assert world.found(one.namespace, matching(endpoint_selector(one))) == reached
    assert world.found(one.namespace, has_all(dict(shared_labels(one)))) == reached
    for role in one.roles:
        whole = qualified and role.kind in ("Server", "Decode") and not role.take_over
        of_role = {seat for seat in (answering(one) if whole else leaders(one)) if seat[0] == role.name}
        assert world.found(one.namespace, has_all(dict(role_labels(one, role)))) == seats(one, of_role)
    if "ConfigMap" in objects:
        producer = routers.plugin(objects, "precise-prefix-cache-producer")
        assert producer is not None
        discovery = producer["kvEventsConfig"]["podDiscoveryConfig"]
        assert discovery["podNamespace"] == one.namespace
        producing = {seat for seat in reached if one.role(seat[2]).kind in ("Server", "Prefill")}
        assert world.found(one.namespace, matching(discovery["podLabelSelector"])) == producing


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(DEPLOYMENTS)
def test_no_two_objects_share_a_name(raws: list[Json]) -> None:
    found: Counter[tuple[str, str, str]] = Counter()
    for one in accepted(raws).deployments:
        made = [*front_services(one), *router_objects(one)]
        for role in one.roles:
            for ordinal in range(role.replicas):
                replica = render_replica(one, role, ordinal)
                made += [pod for pod in replica.members if "name" in pod["metadata"]]
                made += [replica.service] if replica.service else []
        for manifest in made:
            metadata = manifest["metadata"]
            found[manifest["kind"], metadata["namespace"], metadata["name"]] += 1
            assert len(metadata["name"]) <= 63
    assert not [key for key, count in found.items() if count > 1]


def test_such_worlds_are_accepted_at_all() -> None:
    """Without this the properties above could hold of nothing."""
    routed = {"router": {"name": "llm-d-router"}}
    raws = [
        encode(
            build.deployment(roles=[{"name": "b"}, {"name": "c", "size": 2, "extraArgs": EXTERNAL}], name="a", **routed)
        ),
        encode(build.deployment(roles=build.pair(size=2), name="a-router-b", **routed)),
        build.merged(
            encode(build.deployment(roles=build.pair(), name="a", **routed)), {"metadata": {"namespace": "b"}}
        ),
    ]
    world = accepted(raws)
    assert len(world.deployments) == 3
    assert sum(pod.seat[2] == ROUTER for pod in world.pods) == 3


class TestQualification:
    """The eligibility term of sheet 6.4: only on request, and only where every role in question can qualify."""

    TERM = "modeldeployment.gpustack.ai/endpoint-eligible"
    LEADER = "modeldeployment.gpustack.ai/member-index"
    ON = {"model-deployment-endpoint-qualification": True}  # noqa: RUF012

    def resolved(self, roles: Any, router: str = "llm-d-router", *, on: bool = True) -> ResolvedDeployment:
        document = build.deployment(roles=roles, router={"name": router})
        return build.resolved(document, settings=self.ON if on else {})

    def test_off_it_is_nowhere(self) -> None:
        for case in routers.MATRIX:
            found = case.resolved()
            text = str([*front_services(found), *router_objects(found)])
            assert self.TERM not in text

    def test_the_term_stands_before_the_exclusion_of_routers(self) -> None:
        assert endpoint_selector(self.resolved([{}])) == (
            "app.kubernetes.io/name=model-deployment,app.kubernetes.io/instance=qwen,"
            "modeldeployment.gpustack.ai/member-index=0,modeldeployment.gpustack.ai/endpoint-eligible=true,"
            "!modeldeployment.gpustack.ai/router"
        )

    @pytest.mark.parametrize(
        ("roles", "qualifies"),
        [
            ([{}], True),
            ([{}, {"name": "other"}], True),
            ([{"name": "d", "kind": "Decode"}], True),
            ([{"name": "p", "kind": "Prefill"}], False),
            ([{}, {"name": "other", "command": ["serve"]}], False),
            (build.pair(), False),
        ],
    )
    def test_discovery_over_all_roles_needs_all_of_them(self, roles: Any, qualifies: bool) -> None:
        found = self.resolved(roles)
        assert (f"{self.TERM}=true" in endpoint_selector(found)) == qualifies
        assert (self.TERM in shared_labels(found)) == qualifies

    def test_of_a_pair_only_the_decoder_is_narrowed(self) -> None:
        found = self.resolved(build.pair(), "vllm-router")
        args = routers.containers(routers.by_kind(found))["router"]["args"]
        split = args.index("--decode-selector")
        assert [f"{self.TERM}=true" in part for part in (args[:split], args[split:])] == [False, True]
        selectors = {one["metadata"]["name"]: one["spec"]["selector"] for one in front_services(found)}
        assert {name: self.TERM in selector for name, selector in selectors.items()} == {
            "qwen": False,
            "qwen-prefill": False,
            "qwen-decode": True,
        }

    def test_every_rank_of_external_data_parallelism_is_found_once_it_can_be_eligible(self) -> None:
        roles = [{"size": 2, "extraArgs": EXTERNAL}]
        for on in (False, True):
            found = self.resolved(roles, on=on)
            labels = shared_labels(found)
            assert (self.LEADER in labels, self.TERM in labels) == (not on, on)
            assert role_labels(found, found.roles[0]).items() >= labels.items()

    def test_status_publishes_the_labels_that_are_selected(self) -> None:
        for on in (False, True):
            found = self.resolved(build.pair(), "vllm-router", on=on)
            published = [role["selector"] for role in published_contract(found)["roles"]]
            assert published == [dict(role_labels(found, role)) for role in found.roles]


def test_of_an_elastic_role_only_the_master_is_found() -> None:
    """Such a role is not rendered yet; what finds it is settled already."""
    plain = build.resolved(build.deployment(router={"name": "llm-d-router"}))
    [role] = plain.roles
    declared = role.declared.model_copy(update={"elastic_ep": ElasticEP(width=2)})
    found = replace(plain, roles=(replace(role, declared=declared),))
    assert endpoint_selector(found) == (
        "app.kubernetes.io/name=model-deployment,app.kubernetes.io/instance=qwen,"
        "modeldeployment.gpustack.ai/member-index=0,app.kubernetes.io/component=server,"
        "modeldeployment.gpustack.ai/pod-ordinal=0,!modeldeployment.gpustack.ai/router"
    )
    narrowed = {"app.kubernetes.io/component": "server", "modeldeployment.gpustack.ai/pod-ordinal": "0"}
    assert shared_labels(found).items() >= narrowed.items()
    for service in front_services(found):
        assert service["spec"]["selector"].items() >= narrowed.items()
