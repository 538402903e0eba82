"""From Binding to store: when there is one, what it says, and why there is none (bindings sheet 3.4 and 3.5)."""

import json
from typing import Any

import pytest

from gpustack_components.api.kv_cache import KVCachePool, KVCachePoolBinding
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.kv_cache import Domain, Store, connect
from tests.render import build

Json = dict[str, Any]
DOCUMENT = build.deployment(kvCache={"poolRef": {"name": "cache"}})
GRANTED = [{"type": "QuotaGranted", "status": "True"}]


def test_a_usable_binding_leads_to_its_store() -> None:
    found = connect(DOCUMENT, Bindings.of(build.store(groups=("TCP", "RDMA"), dtype="fp8_e4m3", domain="qwen")))
    assert found.reason == "Registered"
    assert found.store == Store(
        binding="cache",
        pool="shared-dram",
        endpoint=build.ENDPOINT,
        offers=("tcp", "rdma"),
        tenant="qwen",
        domain=Domain("qwen", 64, "fp8_e4m3"),
    )


@pytest.mark.parametrize(
    ("status", "usable"),
    [
        (None, True),
        ({}, False),
        ({"phase": "Ready"}, False),
        ({"phase": "Ready", "conditions": GRANTED}, True),
        ({"phase": "Ready", "conditions": [{"type": "QuotaGranted", "status": "False"}]}, False),
        ({"phase": "Ready", "conditions": [{"type": "QuotaGranted", "status": "Unknown"}]}, False),
        ({"phase": "Degraded", "conditions": GRANTED}, False),
        ({"conditions": GRANTED}, False),
    ],
)
def test_a_binding_is_usable_when_ready_and_granted_or_when_declared_without_a_status(
    status: Json | None, usable: bool
) -> None:
    found = connect(DOCUMENT, Bindings.of(build.store(binding_status=status)))
    assert (found.store is not None) is usable
    assert found.reason == ("Registered" if usable else "BindingNotReady")


def deleting(binding: KVCachePoolBinding) -> KVCachePoolBinding:
    stamped = binding.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    return binding.model_copy(update={"metadata": stamped})


def test_every_missing_link_gives_no_store_and_says_which() -> None:
    binding, pool, backend = build.store()
    assert isinstance(binding, KVCachePoolBinding) and isinstance(pool, KVCachePool)
    unobserved = pool.model_copy(update={"status": None})
    for reason, known in (
        ("BindingNotFound", [pool, backend]),
        ("BindingDeleting", [deleting(binding), pool, backend]),
        ("PoolNotFound", [binding, backend]),
        ("EndpointNotPublished", [binding, unobserved, backend]),
        ("EndpointNotPublished", build.store(endpoint="")),
        ("BackendNotFound", [binding, pool]),
    ):
        found = connect(DOCUMENT, Bindings.of(known))
        assert (found.store, found.reason) == (None, reason)
        assert found.message
    assert connect(build.deployment(), Bindings.of(build.store())).reason == "NotApplicable"


def test_a_binding_of_another_namespace_is_not_reached() -> None:
    binding, *rest = build.store()
    assert isinstance(binding, KVCachePoolBinding)
    elsewhere = binding.model_copy(update={"metadata": binding.metadata.model_copy(update={"namespace": "team-b"})})
    assert connect(DOCUMENT, Bindings.of([elsewhere, *rest])).reason == "BindingNotFound"


@pytest.mark.parametrize(
    ("groups", "tenancy", "ledger", "tenant"),
    [
        (["TCP"], False, None, ""),
        (["TCP"], False, ("True", "Available"), ""),
        (["TCP"], True, None, "team-a-shared"),
        (["TCP"], True, ("True", "Available"), "team-a-shared"),
        (["TCP"], True, ("False", "MultiTenancyDisabled"), ""),
        (["TCP"], True, ("False", "LedgerUnreachable"), "team-a-shared"),
        (["TCP"], True, ("Unknown", "Unobserved"), "team-a-shared"),
        ([], True, None, "team-a-shared"),
        ([], True, ("False", "MultiTenancyDisabled"), ""),
    ],
    ids=str,
)
def test_only_a_declared_single_tenant_store_drops_the_tenant(
    groups: list[str], tenancy: bool, ledger: tuple[str, str] | None, tenant: str
) -> None:
    conditions = [{"type": "QuotaLedgerAvailable", "status": ledger[0], "reason": ledger[1]}] if ledger else []
    found = connect(DOCUMENT, Bindings.of(build.store(groups=groups, tenancy=tenancy, pool_conditions=conditions)))
    assert found.store is not None and found.store.tenant == tenant


def test_the_default_domain_is_handed_on_by_name() -> None:
    found = connect(DOCUMENT, Bindings.of(build.store(domain="default")))
    assert found.store is not None and found.store.tenant == "default"


def test_a_remembered_store_survives_the_record() -> None:
    store = connect(DOCUMENT, Bindings.of(build.store(groups=("TCP", "RDMA")))).store
    assert store is not None
    assert Store.from_json(json.loads(json.dumps(store.to_json()))) == store
