"""What ends a sentence in brackets and is no rule of a document: refusals of a program's own arguments, of a
rendering, and what holds Pods back. `explain` answers for these ids as for rules."""

from collections.abc import Mapping
from types import MappingProxyType

from gpustack_components.admission.rule import Rule

_PROGRAM, _RENDERING, _WEIGHTS = "programs", "rendering", "weights"


def _hold(id_: str, when: str, way_out: str) -> Rule:
    return Rule(
        id=id_,
        subject=_WEIGHTS,
        layer="render",
        when=when,
        way_out=way_out,
        source="bindings 5.6",
        paths=("spec.model.artifactRef",),
        needs=frozenset(("object", "bindings")),
        severity="hold",
    )


def _argument(id_: str, when: str, way_out: str, path: str = "") -> Rule:
    return Rule(id=id_, subject=_PROGRAM, layer="program", when=when, way_out=way_out, source="design 7", paths=(path,))


_ALL = (
    _argument("document-shape", "the document passed to a component is not a mapping", "Pass the manifest as a dict."),
    _argument(
        "arguments",
        "two arguments of a component state one thing: a document beside a spec, a namespace that is not the "
        "document's, or one field in two spellings",
        "Keep one of them.",
    ),
    _argument(
        "output-decides-shape",
        "an Output stands where its value decides which objects there are: names, roles, counts, types, ports, the "
        "router",
        "Pass a plain value, so that preview can show the objects.",
    ),
    _argument(
        "secret-in-spec",
        "a secret value stands in a spec, which ends up readable in Pods, in the record and in the plan",
        "Put it into a Kubernetes Secret and name that Secret in the spec.",
    ),
    Rule(
        id="declared-twice",
        subject=_PROGRAM,
        layer="program",
        when="a program declares two deployments of one name in one namespace of one cluster",
        way_out="Give one of the two another name or namespace.",
        source="design 7",
        paths=("metadata.name",),
        needs=frozenset(("object", "other documents")),
    ),
    Rule(
        id="cluster-unclear",
        subject=_PROGRAM,
        layer="program",
        when="a Kubernetes provider is passed in `opts` without `kubeconfig` or `context`, so that the rollout cannot "
        "know its cluster",
        way_out="Pass `kubeconfig=` or `context=` as well.",
        source="design 7",
        paths=("kubeconfig",),
    ),
    Rule(
        id="settings",
        subject=_PROGRAM,
        layer="program",
        when="a setting has a name or a value that there is not",
        way_out="Write one of the names and values that the sentence gives, in `settings` or the configuration.",
        source="bindings 7",
        paths=("settings",),
        needs=frozenset(("settings",)),
    ),
    Rule(
        id="timeouts",
        subject=_PROGRAM,
        layer="program",
        when="a timeout has a name that there is not, or is no duration",
        way_out="Write `admission`, `ready`, `drain`, `weights` or `lease`, each as `90s`, `30m`, `1h30m` or a number "
        "of seconds.",
        source="design 7",
        paths=("timeouts",),
        needs=frozenset(("settings",)),
    ),
    Rule(
        id="not-renderable",
        subject=_RENDERING,
        layer="render",
        when="an accepted deployment cannot be rendered with the objects it depends on, which the operator reports in "
        "the event `RenderFailed`",
        way_out="Do what the sentence says; where it names an object that is not observed yet, run again once it is.",
        source="rendering 18",
        paths=("",),
        needs=frozenset(("object", "instance types", "bindings", "settings")),
    ),
    _hold(
        "ArtifactNotFound", "no ModelArtifact of that name is known", "Create it, or declare it beside the deployment."
    ),
    _hold(
        "ArtifactNotResolved",
        "the ModelArtifact's condition `Resolved` is not True, or what it resolved to is not stated",
        "Wait for it; its conditions say what is missing.",
    ),
    _hold(
        "FilterNeedsNodeDelivery",
        "the ModelArtifact takes or leaves out files by pattern and the engine downloads it",
        "Set `model-artifact-delivery-mode` to `Node`, or make an artifact without patterns.",
    ),
    _hold(
        "AnchorNeedsNodeDelivery",
        "the ModelArtifact pins a digest and the engine downloads it",
        "Set `model-artifact-delivery-mode` to `Node`, or make an artifact without `expectedDigest`.",
    ),
    _hold(
        "ClaimNotBound",
        "the ModelArtifact's claim does not exist, is being deleted, has lost its volume, or is Pending and its class "
        "does not provision a volume for the first Pod that mounts it",
        "Bind the claim to the volume that holds the weights; a run that waits goes on by itself.",
    ),
    _hold(
        "AccessModeConflict",
        "more than one Pod is to mount the ModelArtifact's claim, which allows neither ReadOnlyMany nor ReadWriteMany",
        "Use a claim of one of these modes, or one replica of one Pod.",
    ),
    _hold(
        "NodeDeliveryUnavailable",
        "nodes are to deliver the weights and the cluster has no CSIDriver `model.csi.gpustack.ai`",
        "Install the node plugin, or set `model-artifact-delivery-mode` to `Engine`.",
    ),
)

BESIDE: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _ALL})
"""Every such id with its explanation."""
