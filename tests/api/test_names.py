"""Names measured on the operator, and the checks admission asks of them (api sheet 5, rendering sheet 2)."""

import pytest

from gpustack_components.api import names


@pytest.mark.parametrize(
    ("text", "digest"),
    [("foobar", "85944171f73967e8"), ("", "cbf29ce484222325"), ("h20-8x", "a5858ac7f29544c0")],
)
def test_fnv64_is_the_64_bit_fnv_1a_hash(text: str, digest: str) -> None:
    assert names.fnv64(text) == digest


@pytest.mark.parametrize(
    ("replica", "group"),
    [
        (("team-a", "qwen-chat", "server", 0), "gpustack-fnv64-dc611a87ddf1aa0e"),
        (("team-a", "qwen-chat", "server", 1), "gpustack-fnv64-dc611b87ddf1abc1"),
        (("team-a", "qwen-pd", "prefill", 1), "gpustack-fnv64-f51e8f3ee6caa408"),
        (("team-a", "qwen-pd", "decode", 0), "gpustack-fnv64-a0029a32df51a04d"),
        (("team-b", "qwen-chat", "server", 0), "gpustack-fnv64-b8e12ecb436dbb19"),
    ],
)
def test_a_replica_has_the_pod_group_the_operator_gives_it(replica: tuple[str, str, str, int], group: str) -> None:
    assert names.group_name(*replica) == group


@pytest.mark.parametrize(
    ("instance_type", "queue"),
    [
        ("gpustack--nvidia-h100-80gb-hbm3-linux-amd64", "gpustack-fnv64-e4768a65ca0ce96b"),
        ("gpustack--nvidia-a10g-linux-amd64", "gpustack-fnv64-c4680bb149644f1c"),
        ("gpustack-nvidia-a10g-linux-amd64", "gpustack-fnv64-7bc37bef52624161"),
        ("gpustack-nvidia-h20-linux-amd64", "gpustack-fnv64-796ced4e2897a3b4"),
        ("gpustack--generic-linux-amd64", "gpustack-fnv64-3b93966fd73eb9ec"),
        ("gpustack--nvidia-geforce-rtx-4090-linux-amd64", "gpustack-fnv64-1a7145d0a5248d55"),
        ("h20-8x", "gpustack-fnv64-a5858ac7f29544c0"),
    ],
)
def test_an_instance_type_has_the_entrance_the_operator_gives_it(instance_type: str, queue: str) -> None:
    assert names.entrance(instance_type) == queue
    assert len(queue) == 31


def test_objects_of_a_deployment_are_named_after_it() -> None:
    assert names.role_service("qwen", "server") == "qwen-server"
    assert names.router_name("qwen") == "qwen-router"
    assert names.instance_service("qwen", "server", 2) == "qwen-server-r2"
    assert [names.member_pod("qwen", "server", 2, m) for m in range(3)] == [
        "qwen-server-r2-m0",
        "qwen-server-r2-m1",
        "qwen-server-r2-m2",
    ]
    assert names.leader_address("qwen", "server", 2) == "qwen-server-r2-m0.qwen-server-r2"
    assert names.record_name("qwen") == "qwen-modeldeployment"


def test_the_longest_member_name_crosses_63_characters_at_the_eleventh_replica() -> None:
    deployment, role = "d" * 28, "r" * 28
    assert len(names.longest_member_pod(deployment, role, replicas=10, size=2)) == 63
    assert len(names.longest_member_pod(deployment, role, replicas=11, size=2)) == 64


@pytest.mark.parametrize(
    ("name", "service", "hostname", "obj"),
    [
        ("qwen", True, True, True),
        ("7b-chat", False, True, True),
        ("team.model.serving", False, False, True),
        ("a" * 63, True, True, True),
        ("a" * 64, False, False, True),
        ("a" * 254, False, False, False),
        ("Qwen", False, False, False),
        ("-a", False, False, False),
        ("a-", False, False, False),
        ("a..b", False, False, False),
        ("", False, False, False),
        ("a\n", False, False, False),
        ("ä", False, False, False),
    ],
)
def test_names_are_checked_as_the_api_server_checks_them(name: str, service: bool, hostname: bool, obj: bool) -> None:
    assert (names.is_dns_1035_label(name), names.is_dns_1123_label(name), names.is_dns_subdomain(name)) == (
        service,
        hostname,
        obj,
    )


@pytest.mark.parametrize(
    ("key", "legal"),
    [
        ("topology.kubernetes.io/zone", True),
        ("rack", True),
        ("Rack_1.a", True),
        ("a/b/c", False),
        ("/rack", False),
        ("example.com/", False),
        ("-rack", False),
        ("Example.com/rack", False),
        ("a" * 64, False),
        ("", False),
    ],
)
def test_qualified_names_are_checked_as_the_api_server_checks_them(key: str, legal: bool) -> None:
    assert names.is_qualified_name(key) is legal
