"""What the stack's configuration decides."""

from collections.abc import Iterator

import pulumi
import pytest
from pulumi.runtime.config import CONFIG, set_all_config

from gpustack_components.components import config


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Every test starts and ends without configuration."""
    CONFIG.get().clear()
    yield
    CONFIG.get().clear()


def set_config(**values: str) -> None:
    set_all_config({key.replace("__", ":").replace("_", "-"): value for key, value in values.items()})


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("deployments/*.yaml", ["deployments/*.yaml"]),
        ('["a.yaml", "b/*.yaml"]', ["a.yaml", "b/*.yaml"]),
        ('"a.yaml"', ["a.yaml"]),
    ],
)
def test_manifests_are_a_path_or_a_glob_or_a_list(text: str, patterns: list[str]):
    set_config(gpustack_components__manifests=text)
    assert config.manifests() == patterns


@pytest.mark.parametrize("text", ["[]", "[1]", '[""]', "[", '""'])
def test_anything_else_is_refused_and_quoted(text: str):
    set_config(gpustack_components__manifests=text)
    if text == "[":
        assert config.manifests() == ["["]
        return
    with pytest.raises(pulumi.RunError, match="must be a path, folder or glob, or a list of them"):
        config.manifests()


def test_without_manifests_the_command_that_sets_them_is_named():
    with pytest.raises(
        pulumi.RunError, match=r"pulumi config set gpustack-components:manifests 'deployments/\*\.yaml'"
    ):
        config.manifests()


def test_settings_and_timeouts_are_mappings_and_empty_by_default():
    assert config.mapping("settings") == {}
    set_config(gpustack_components__timeouts='{"ready": "1m"}', gpustack_components__settings="[1]")
    assert config.mapping("timeouts") == {"ready": "1m"}
    with pytest.raises(pulumi.RunError, match=r"pulumi config set --path 'gpustack-components:settings\.NAME' VALUE"):
        config.mapping("settings")


def test_the_cluster_is_the_one_pulumi_kubernetes_is_configured_with():
    assert config.configured_cluster() == (None, None)
    set_config(kubernetes__context="prod")
    assert config.configured_cluster() == (None, "prod")


def test_a_key_that_is_nearly_one_is_refused_with_the_one_meant():
    set_config(gpustack_components__manifest="a.yaml", gpustack_components__x="1", gpustack_components__time_outs="{}")
    for read in (config.unknown, config.manifests):
        with pytest.raises(pulumi.RunError) as refused:
            read()
        assert str(refused.value).splitlines() == [
            "gpustack-components:manifest configures nothing; did you mean manifests?",
            "gpustack-components:time-outs configures nothing; did you mean timeouts?",
            "set that key instead, and remove this one with `pulumi config rm`",
        ]


def test_any_other_key_that_configures_nothing_is_said():
    set_config(gpustack_components__settings="{}", gpustack_components__x="1", other__y="1")
    assert config.unknown() == [
        "gpustack-components:x configures nothing and is ignored; known are adopt, manifests, settings, timeouts"
    ]
