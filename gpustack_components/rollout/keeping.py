"""Writes the record: nothing that another writer put there is lost, and a lost answer is no refusal."""

from dataclasses import replace
from datetime import datetime

from gpustack_components.cluster.port import AlreadyExists, Cluster, Conflict
from gpustack_components.rollout import record as records
from gpustack_components.rollout.acting import GivenUp
from gpustack_components.rollout.record import Record

_ATTEMPTS = 4


def keep(cluster: Cluster, record: Record, stored: Record | None, now: datetime) -> Record:
    """Write `record` over what was `stored` when it was last read or written here; the record as it stands then.

    Raises `GivenUp` when somebody else's writing stands in the way, and `ClusterError`.
    """
    base = stored
    for _ in range(_ATTEMPTS):
        pending = replace(
            record,
            uid=base.uid if base is not None else "",
            resource_version=base.resource_version if base is not None else "",
        )
        try:
            return records.save(cluster, pending, now)
        except AlreadyExists:
            raise GivenUp("another run created this deployment's record meanwhile; run again") from None
        except Conflict:
            if stored is None:
                raise
            try:
                base = records.rebase(cluster, stored)
            except Conflict as conflict:
                found = records.load(cluster, pending.namespace, pending.name)
                if found is not None and pending.says_the_same(found):
                    return found
                raise GivenUp(f"{conflict}; run again") from None
    raise GivenUp("the record is being written to by somebody else all the time; run again")
