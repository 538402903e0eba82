"""The admission pack through the analyzer's own servicer."""

from typing import Any

import pytest
from pulumi_policy import EnforcementLevel

from gpustack_components.admission.registry import RULES
from policies.admission.pack import GROUPS, POLICIES
from policies.deployments import COMPONENT, ROLLOUT
from tests.policies.analyzer import UNKNOWN, Analyzer, component, role, spec


@pytest.fixture
def analyzer() -> Analyzer:
    return Analyzer(POLICIES)


def test_an_accepted_deployment_has_no_findings(analyzer: Analyzer):
    assert analyzer.analyze(COMPONENT, component(spec())) == []


@pytest.mark.parametrize(
    ("properties", "policy", "rule", "path"),
    [
        (component(spec(foo=1)), "deployment-document", "unknown-field", "spec.foo"),
        (component(spec(roles=[])), "deployment-document", "roles-empty", "spec.roles"),
        (
            component(spec(roles=[role(extraArgs=["--tensor-parallel-size=4"])])),
            "engine-arguments",
            "parallel-width",
            "spec.roles[0]",
        ),
        (
            component(spec(roles=[role(extraArgs=["--kv-transfer-config={}"])])),
            "engine-arguments",
            "owned-argument",
            "spec.roles[0].extraArgs[0]",
        ),
        (component(spec(roles=[role(name="d" * 63)])), "roles-and-names", "role-service-name", "spec.roles[0].name"),
        (
            component(spec(router={"name": "sglang-gateway"})),
            "router-and-ports",
            "router-engine",
            "spec.router.name",
        ),
        (
            component(spec(roles=[role(privileged=True)])),
            "host-access-and-volumes",
            "host-privileged",
            "spec.roles[0].privileged",
        ),
    ],
)
def test_a_refusal_is_a_mandatory_violation_of_the_policy_of_its_subject(
    analyzer: Analyzer, properties: dict[str, Any], policy: str, rule: str, path: str
):
    findings = analyzer.analyze(COMPONENT, properties)
    assert [(one.policy, one.mandatory, one.severity) for one in findings] == [(policy, True, "POLICY_SEVERITY_HIGH")]
    assert findings[0].message.startswith(path) and f"({rule}" in findings[0].message


def test_all_refusals_of_a_deployment_are_reported_at_once(analyzer: Analyzer):
    wrong = spec(
        router={"name": "sglang-gateway"}, roles=[role(privileged=True, extraArgs=["--tensor-parallel-size=4"])]
    )
    policies = {one.policy for one in analyzer.analyze(COMPONENT, component(wrong))}
    assert policies == {"router-and-ports", "host-access-and-volumes", "engine-arguments"}


def test_the_settings_and_bindings_of_the_component_count(analyzer: Analyzer):
    privileged = spec(roles=[role(privileged=True)])
    allowed = {"instance-privileged-allowed": True}
    assert analyzer.analyze(COMPONENT, component(privileged, settings=allowed)) == []
    small = {
        "kind": "InstanceType",
        "apiVersion": "worker.gpustack.ai/v1",
        "metadata": {"name": "h20-8x"},
        "spec": {"acceleratable": True, "acceleratorGroup": "h20", "os": "linux", "arch": "amd64"}
        | {"unitResources": {"cpu": "16", "ram": "64Gi"}, "localStorage": "100Gi"},
        "status": {"detail": {"manufacturer": "nvidia"}, "accelerator": {"capacity": "1"}},
    }
    wide = component(spec(roles=[role(resources={"accelerator": 2})]), bindings=[small])
    (finding,) = analyzer.analyze(COMPONENT, wide)
    assert finding.policy == "hardware-and-cache" and "(accelerator-capacity)" in finding.message


def test_the_rollout_of_a_component_is_not_reported_a_second_time(analyzer: Analyzer):
    wrong = component(spec(foo=1))
    assert analyzer.analyze(ROLLOUT, wrong, parent=COMPONENT) == []
    assert analyzer.analyze(ROLLOUT, wrong) != []


def test_other_resources_are_left_alone(analyzer: Analyzer):
    assert analyzer.analyze("kubernetes:core/v1:Service", {"spec": {"foo": UNKNOWN}}) == []


def test_what_is_known_is_judged_and_what_is_not_is_said(analyzer: Analyzer):
    partly = spec(engine={"name": "vLLM", "image": UNKNOWN}, roles=[role(privileged=True)])
    violation, note = sorted(analyzer.analyze(COMPONENT, component(partly)), key=lambda one: not one.mandatory)
    assert violation.policy == "host-access-and-volumes" and violation.mandatory
    assert not note.mandatory and ".spec.engine.image can't be known during preview" in note.message


def test_an_unknown_argument_leaves_the_role_s_arguments_unjudged(analyzer: Analyzer):
    partly = spec(roles=[role(extraArgs=[UNKNOWN, "--tensor-parallel-size=4"])])
    (note,) = analyzer.analyze(COMPONENT, component(partly))
    assert not note.mandatory and "extraArgs" in note.message


def test_a_spec_that_is_not_known_at_all_is_said(analyzer: Analyzer):
    (note,) = analyzer.analyze(COMPONENT, component(UNKNOWN))  # type: ignore[arg-type]
    assert not note.mandatory and ".spec can't be known" in note.message


@pytest.mark.parametrize("properties", [{}, {"spec": None}, {"metadata": [], "spec": "x"}, {"spec": {"roles": [[]]}}])
def test_nonsense_is_refused_with_sentences(analyzer: Analyzer, properties: dict[str, Any]):
    findings = analyzer.analyze(COMPONENT, properties)
    assert findings and all(one.mandatory and "defect" not in one.message for one in findings)


def test_every_rule_belongs_to_exactly_one_policy():
    subjects = [subject for group in GROUPS for subject in group.subjects]
    assert len(subjects) == len(set(subjects))
    assert set(subjects) <= {rule.subject for rule in RULES.values()}


def test_every_policy_is_mandatory_and_says_where_to_read_on():
    for policy in POLICIES:
        assert policy.enforcement_level is EnforcementLevel.MANDATORY
        assert policy.remediation_steps and policy.url


def test_what_the_comparison_with_the_stored_deployment_refused_is_a_violation_of_its_subject(analyzer: Analyzer):
    sentence = "spec.model: another value describes another deployment (identity-model)"
    observed = {"cluster": "answers", "refusedUpdates": [{"rule": "identity-model", "sentence": sentence}]}
    found = analyzer.analyze(ROLLOUT, component(spec(), observed=observed), parent=COMPONENT)
    assert [(one.policy, one.message, one.mandatory) for one in found] == [("roles-and-names", sentence, True)]
    assert analyzer.analyze(ROLLOUT, component(spec(), observed={"cluster": "answers"}), parent=COMPONENT) == []
