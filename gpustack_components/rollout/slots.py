"""The remembered in-flight replacement of a role, at most one per role (rollout sheet 4.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_components.cluster.port import Json

SlotPhase = Literal["Cleanup", "WaitingForAdmission"]
"""`Cleanup`: the captured members and Workload leave. `WaitingForAdmission`: the replacement is created or queued."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One replacement, remembered before its first deletion and until its admission."""

    role: str
    ordinal: int
    phase: SlotPhase
    member_uids: tuple[str, ...] = ()
    """Pods that are about to go, sorted; empty once they are gone."""
    workload_uid: str = ""
    """The Workload that owned them; empty when there was none, and once it is gone."""
    member_hashes: tuple[str, ...] = ()
    """Fingerprints of what is being built, by member; empty in Cleanup."""
    current_member_uids: tuple[str, ...] = ()
    """Pods of the replacement once they are created, sorted."""

    def to_json(self) -> Json:
        """As the record keeps it."""
        return {
            "role": self.role,
            "ordinal": self.ordinal,
            "phase": self.phase,
            "memberUIDs": list(self.member_uids),
            "workloadUID": self.workload_uid,
            "memberHashes": list(self.member_hashes),
            "currentMemberUIDs": list(self.current_member_uids),
        }


Slots = Mapping[str, Slot]
"""The held slots by role; a role without one has no key."""


def slots_to_json(slots: Slots) -> Json:
    """All held slots as the record keeps them."""
    return {role: slots[role].to_json() for role in sorted(slots)}


def slots_from_json(value: Any) -> dict[str, Slot]:
    """The slots a record holds. Raises `ValueError` when they are not what `slots_to_json` writes."""
    try:
        return {str(role): _slot(entry) for role, entry in dict(value or {}).items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("the remembered replacement slots are unreadable") from error


def _slot(value: Any) -> Slot:
    phase = value["phase"]
    if phase not in ("Cleanup", "WaitingForAdmission"):
        raise ValueError(phase)
    return Slot(
        role=str(value["role"]),
        ordinal=int(value["ordinal"]),
        phase=phase,
        member_uids=tuple(map(str, value.get("memberUIDs") or ())),
        workload_uid=str(value.get("workloadUID") or ""),
        member_hashes=tuple(map(str, value.get("memberHashes") or ())),
        current_member_uids=tuple(map(str, value.get("currentMemberUIDs") or ())),
    )
