"""Rules about the set of roles: how many, which kinds stand together, and fields no other subject owns."""

from collections.abc import Iterator

from gpustack_components.admission.case import Case, RoleCase
from gpustack_components.admission.rule import Rule
from gpustack_components.api import names
from gpustack_components.api.command_line.owned import SGLANG, VLLM
from gpustack_components.api.refusal import Refusal

_SUBJECT = "roles"
_MOST_ROLES = 10
_HOSTNAME = "kubernetes.io/hostname"
_SERVER = "Server"
_KINDS = {
    VLLM: frozenset((_SERVER, "Prefill", "Decode", "Encode")),
    SGLANG: frozenset((_SERVER, "Prefill", "Decode", "Encode")),
}
"""Role kinds an engine has a rendering term for."""

ROLE_COUNT = Rule(
    id="role-count",
    subject=_SUBJECT,
    layer="webhook",
    when=f"a deployment declares more than {_MOST_ROLES} roles",
    way_out="Split the deployment.",
    source="api-and-admission 6.2",
    paths=("spec.roles",),
)
ROLE_KIND_MIX = Rule(
    id="role-kind-mix",
    subject=_SUBJECT,
    layer="webhook",
    when="a Server role stands beside a role of another kind",
    way_out="Make every role a Server, or none; a server and a split set are two deployments.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].kind",),
)
ROLE_KIND_REPEAT = Rule(
    id="role-kind-repeat",
    subject=_SUBJECT,
    layer="webhook",
    when="a kind other than Server is declared by two roles",
    way_out="Raise the replicas of the first role of that kind instead.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].kind",),
)
ROLE_KIND_UNSUPPORTED = Rule(
    id="role-kind-unsupported",
    subject=_SUBJECT,
    layer="webhook",
    when="the engine cannot be rendered in that kind; no engine the API accepts today is refused by it",
    way_out="Use another kind or another engine.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].kind",),
)
TOPOLOGY_LEVEL = Rule(
    id="topology-level",
    subject=_SUBJECT,
    layer="webhook",
    when=f"`topology.requiredLevel` is no label key, or is `{_HOSTNAME}`",
    way_out="Name a label key such as topology.kubernetes.io/zone, or leave the field out for no constraint.",
    source="api-and-admission 6.2, bindings 6",
    paths=("spec.roles[].topology.requiredLevel",),
)
SHM_SIZE = Rule(
    id="shm-size",
    subject=_SUBJECT,
    layer="webhook",
    when="`shmSize` is zero or negative",
    way_out="State a positive size, or leave the field out for 16Gi.",
    source="api-and-admission 6.2",
    paths=("spec.roles[].shmSize",),
)

RULES = (ROLE_COUNT, ROLE_KIND_MIX, ROLE_KIND_REPEAT, ROLE_KIND_UNSUPPORTED, TOPOLOGY_LEVEL, SHM_SIZE)


def judge_shared_memory(case: Case, role: RoleCase) -> Iterator[Refusal]:
    """The size of `/dev/shm`."""
    size = role.role.shm_size
    if size is not None and size <= 0:
        yield SHM_SIZE.refuse(
            f"{role.path}.shmSize",
            f"{size} is no size for shared memory, it must be positive; state one such as 16Gi, or leave it out",
            str(size),
        )


def judge_count(case: Case) -> Iterator[Refusal]:
    """The number of roles."""
    count = len(case.new.roles)
    if count > _MOST_ROLES:
        yield ROLE_COUNT.refuse(
            "spec.roles",
            f"{count} roles are more than the {_MOST_ROLES} this product renders for one deployment (its own limit: "
            "every role brings its own replicas, Services and queue references); split the deployment",
            count,
        )


def judge_kinds(case: Case) -> Iterator[Refusal]:
    """Which kinds stand together. A mix is said on every role and silences the other two rules of kinds."""
    kinds = [role.kind for role in case.new.roles]
    if _SERVER in kinds and len(set(kinds)) > 1:
        others = ", ".join(sorted(set(kinds) - {_SERVER}))
        for role in case.new.roles:
            yield ROLE_KIND_MIX.refuse(
                f"{role.path}.kind",
                f"a Server serves whole requests by itself and stands beside no {others} role; make every role of "
                "this deployment a Server, or none",
                role.kind,
            )
        return
    first: dict[str, RoleCase] = {}
    for role in case.new.roles:
        earlier = first.setdefault(role.kind, role)
        if role.kind != _SERVER and earlier is not role:
            yield ROLE_KIND_REPEAT.refuse(
                f"{role.path}.kind",
                f'{role.kind} is already the kind of role "{earlier.name}"; raise its replicas instead of declaring a '
                "second one",
                role.kind,
            )
        elif role.kind not in _KINDS.get(case.engine, ()):
            yield ROLE_KIND_UNSUPPORTED.refuse(
                f"{role.path}.kind",
                f"{case.engine} has no {role.kind} role; use another kind, or another engine",
                role.kind,
            )


def judge_topology(case: Case) -> Iterator[Refusal]:
    """The topology level each role requires."""
    for role in case.new.roles:
        level = role.role.topology.required_level if role.role.topology else None
        if not level:
            continue
        if level == _HOSTNAME:
            message = f"{_HOSTNAME} is implied and cannot be required; leave the field out for no constraint"
        elif names.is_qualified_name(level):
            continue
        else:
            message = (
                f'"{level}" is no label key; write one such as topology.kubernetes.io/zone ([<domain>/]<name>, the '
                "name at most 63 letters, digits, -, _ and .), or leave the field out"
            )
        yield TOPOLOGY_LEVEL.refuse(f"{role.path}.topology.requiredLevel", message, level)
