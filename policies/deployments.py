"""What a policy sees of a ModelDeployment: the analyzer's proxies as plain JSON, decoded and reviewed once per
resource.

Values that a preview does not know yet are named and never guessed at: what stands beside them is judged, and the
policy says afterwards what it could not judge.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import TYPE_CHECKING, Any, cast

from pulumi_policy import ReportViolation, ResourceValidationArgs
from pulumi_policy.proxy import UnknownValueError

from gpustack_components.admission.defaulting import default
from gpustack_components.api.decode import decode
from gpustack_components.components.judgement import Judgement, review_only
from gpustack_components.components.plain import Json, known
from gpustack_components.components.request import METADATA, OBSERVED, REFUSED_UPDATES, SPEC, Request

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeployment

COMPONENT = "gpustack:index:ModelDeployment"
ROLLOUT = "pulumi-python:dynamic/gpustack:Rollout"
DOCS = "https://github.com/gpustack/gpustack-components/blob/main/docs"


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Stands where a value is not known before the update."""

    error: UnknownValueError
    """What the analyzer raised when it was touched."""


@dataclass(frozen=True)
class Deployment:
    """One ModelDeployment as a policy sees it."""

    urn: str
    """Address of the resource that declares it."""
    name: str
    """The resource's logical name."""
    request: Request
    """What the program asks for."""
    judgement: Judgement
    """The decoded document, refusals and what could not be judged."""
    errors: tuple[UnknownValueError, ...] = field(default=(), repr=False)
    """What the analyzer raised for the values that are not known yet, in document order."""

    @cached_property
    def document(self) -> "ModelDeployment | None":
        """The defaulted document, also of a refused one; None when it does not decode: the admission pack says so."""
        if self.judgement.document is not None or self.judgement.bindings is None:
            return self.judgement.document
        decoded: Any = decode(self.request.document).document
        return default(decoded, self.judgement.bindings) if decoded is not None else None

    def hides(self, path: str) -> bool:
        """Whether the value at a path is, or is inside, something not known yet."""
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in self.request.unknown)


def plain_properties(value: Any) -> Any:
    """Proxies as plain dicts and lists; a value not known yet becomes `NotKnown`."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return {key: _touch(mapping, key) for key in mapping}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        sequence = cast("Sequence[Any]", value)
        return [_touch(sequence, index) for index in range(len(sequence))]
    return value


def _touch(container: Any, key: Any) -> Any:
    try:
        return plain_properties(container[key])
    except UnknownValueError as error:
        # Its frames hold the request's protobuf message, which crashes the process when it outlives its module.
        return NotKnown(error.with_traceback(None))


def _is_unknown(value: Any) -> bool:
    return isinstance(value, NotKnown)


def _errors(value: Any) -> Iterator[UnknownValueError]:
    if isinstance(value, NotKnown):
        yield value.error
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from _errors(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _errors(inner)


@dataclass
class _Remembered:
    """The deployment of the resource that the policies of this thread look at, and which of them have had it."""

    deployment: Deployment
    served: set[str]


_thread = local()


def deployment_of(args: ResourceValidationArgs, policy: str) -> Deployment | None:
    """The deployment that a resource declares, or None for any other resource.

    The Rollout below a component repeats what the component says, so it is looked at only where it stands alone. The
    analyzer runs the policies of a pack one after the other on a resource, each with a copy of its own: the first
    one reads it for all, and a policy that comes a second time sees the resource anew.
    """
    if args.resource_type not in (COMPONENT, ROLLOUT) or f"{COMPONENT}$" in args.urn:
        return None
    remembered: _Remembered | None = getattr(_thread, "remembered", None)
    if remembered is None or remembered.deployment.urn != args.urn or policy in remembered.served:
        remembered = _thread.remembered = _Remembered(_read(args), set())
    remembered.served.add(policy)
    return remembered.deployment


def refused_updates(args: ResourceValidationArgs) -> Iterator[tuple[str, str]]:
    """Rule and sentence of what a Rollout's check refused against the deployment as it stands."""
    if args.resource_type != ROLLOUT or OBSERVED not in args.props:
        return
    observed: Any = args.props[OBSERVED]
    if REFUSED_UPDATES in observed:
        for found in observed[REFUSED_UPDATES]:
            yield str(found["rule"]), str(found["sentence"])


def _read(args: ResourceValidationArgs) -> Deployment:
    properties: Json = plain_properties(args.props)
    request = Request.of(properties, _is_unknown)
    errors = tuple(_errors({key: properties.get(key) for key in (METADATA, SPEC)}))
    return Deployment(args.urn, args.name, request, review_only(request), errors)


def without_crashing(
    policy: str, judge: Callable[[ResourceValidationArgs, ReportViolation], None]
) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    """The judge of a policy, a defect in which is reported as a violation: an exception would end the whole preview
    without a word about it.

    What the analyzer raises itself passes: a value that is not known yet, and a policy that does not apply.
    """

    def guarded(args: ResourceValidationArgs, report: ReportViolation) -> None:
        try:
            judge(args, report)
        except UnknownValueError:
            raise
        except Exception as defect:
            if type(defect).__module__.startswith("pulumi_policy"):
                raise
            report(
                f"{args.name}: the policy {policy} itself failed with {defect!r}, so nothing was judged; "
                "this is a defect of gpustack_components, please report it",
                None,
            )

    return guarded


def to_plain(value: Any) -> Any:
    """A policy's configuration or another resource's properties as plain JSON; raises `UnknownValueError` on a value
    not known yet.
    """
    found = plain_properties(value)
    for error in _errors(found):
        raise error
    return known(found, _is_unknown).value
