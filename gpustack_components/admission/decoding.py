"""The rules that decoding answers, described; `api.decode` runs them (api sheet 6.1)."""

from gpustack_components.admission.rule import Layer, Rule

_SUBJECT = "document shape"
_SOURCE = "api-and-admission 2, 6.1"


def _rule(rule_id: str, layer: Layer, when: str, way_out: str, *paths: str, source: str = _SOURCE) -> Rule:
    return Rule(id=rule_id, subject=_SUBJECT, layer=layer, when=when, way_out=way_out, source=source, paths=paths)


RULES = (
    _rule(
        "unknown-kind",
        "decode",
        "`apiVersion` or `kind` names none of the kinds this product reads",
        "Write apiVersion: worker.gpustack.ai/v1 and one of its kinds.",
        "apiVersion",
        "kind",
    ),
    _rule(
        "unknown-field",
        "decode",
        "a key stands where the API has none: `template`, `args`, `engine.version`, `poolRef.namespace`, a misspelling",
        "Remove the key, or use the field the message suggests.",
        "",
    ),
    _rule("schema-type", "schema", "a value has another type than its field", "Write the type the message names.", ""),
    _rule("schema-required", "schema", "a required key is missing", "Add the key.", ""),
    _rule(
        "schema-enum",
        "schema",
        "a value is none of the allowed ones; they are case-sensitive",
        "Use an allowed value.",
        "",
    ),
    _rule(
        "schema-bounds",
        "schema",
        "a number, a length, a pattern or a count of items is out of its bounds",
        "Stay within the bound the message names.",
        "",
    ),
    _rule(
        "schema-one-of",
        "schema",
        "not exactly one of several alternative blocks stands",
        "Keep one of the blocks.",
        "spec.connection",
        "spec.source",
        source="bindings 3.3, 5.1",
    ),
    _rule(
        "role-replicas-bound",
        "schema",
        "`replicas` is below 1 or above 1024",
        "Declare 1 to 1024 replicas.",
        "spec.roles[].replicas",
    ),
    _rule(
        "role-size-bound", "schema", "`size` is below 1 or above 64", "Declare 1 to 64 members.", "spec.roles[].size"
    ),
    _rule("roles-empty", "schema", "`roles` is empty", "Declare at least one role.", "spec.roles"),
    _rule("role-name-duplicate", "schema", "two roles share a name", "Rename the later role.", "spec.roles[].name"),
    _rule(
        "port-duplicate",
        "schema",
        "one port and protocol stand twice in a role",
        "Remove one of the two.",
        "spec.roles[].ports[]",
    ),
    _rule(
        "env-duplicate",
        "schema",
        "one variable stands twice in a role",
        "Keep one of the two.",
        "spec.roles[].env[]",
    ),
)
