"""The whole driver on a real API server, Kueue and scheduler."""

import pytest
from lab import EXIT_AFTER, EXIT_CODE, Lab, Role

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("code", ["0", "1"])
@pytest.mark.parametrize("size", [1, 2])
def test_three_replicas_roll_one_at_a_time_highest_first(lab: Lab, code: str, size: int) -> None:
    lab.open_queue(3 * size)
    ends = {EXIT_CODE: code, EXIT_AFTER: "0.3"}
    first = lab.up(server=Role("v1", replicas=3, size=size, annotations=ends))
    assert first.phase == "Converged", first.reasons
    assert lab.configs() == {0: ["v1"] * size, 1: ["v1"] * size, 2: ["v1"] * size}
    with lab.watching(lab.admitted_uids) as admitted:
        second = lab.up(server=Role("v2", replicas=3, size=size, annotations=ends))
    print(*lab.lines, sep="\n")
    assert second.phase == "Converged", second.reasons
    assert lab.configs() == {0: ["v2"] * size, 1: ["v2"] * size, 2: ["v2"] * size}
    assert min(admitted) >= 2
    turned = [line.split()[1] for line in lab.lines if "turning over" in line]
    assert turned == ["server/2", "server/1", "server/0"]
    assert len(lab.workloads()) == 3
    gone = lab.down()
    assert gone.phase == "Deleted", gone.reasons
    assert lab.pods() == [] and lab.workloads() == []
