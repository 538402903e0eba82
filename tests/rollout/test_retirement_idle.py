"""What counts as idle, and every reason why it does not (rollout sheet 7.2)."""

import pytest

from gpustack_components.render.lifecycle import IDLE_GAUGES
from gpustack_components.rollout.retirement.idle import Reading, trouble_in, verdict

VLLM = IDLE_GAUGES["vLLM"]


def metrics(running: str = "0", waiting: str = "0.0", labels: str = '{engine="0",model_name="a } \\"b\\" x"}') -> str:
    return (
        "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{labels} {running}\nvllm:num_requests_waiting{labels} {waiting}\n"
        "process_cpu_seconds_total 12.5\n"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (metrics(), ""),
        (metrics(labels=""), ""),
        (metrics("0 1700000000000"), ""),
        (metrics("0e0"), ""),
        (metrics("1"), "Busy"),
        (metrics("0", "0.5"), "Busy"),
        (metrics() + 'vllm:num_requests_running{engine="1"} 2\n', "Busy"),
        (metrics().replace("vllm:num_requests_waiting", "vllm:other"), "MissingGauge"),
        ("", "IncompleteMetrics"),
        (metrics()[:-4], "IncompleteMetrics"),
        (metrics("NaN"), "UnreadableGauge"),
        (metrics("+Inf"), "UnreadableGauge"),
        (metrics("-1"), "UnreadableGauge"),
        (metrics("many"), "UnreadableGauge"),
        (metrics() + 'vllm:num_requests_running{engine="1" 0\n', "UnreadableGauge"),
        ("<html>\n", "MissingGauge"),
    ],
)
def test_an_engine_is_idle_only_when_every_gauge_is_there_and_zero(text: str, why: str) -> None:
    assert trouble_in(text, VLLM).partition(":")[0] == why


@pytest.mark.parametrize("gauge", IDLE_GAUGES["SGLang"])
def test_an_sglang_engine_reports_six_queues(gauge: str) -> None:
    lines = {name: f'{name}{{model_name="m"}} 0.0\n' for name in IDLE_GAUGES["SGLang"]}
    assert trouble_in("".join(lines.values()), IDLE_GAUGES["SGLang"]) == ""
    assert trouble_in("".join({**lines, gauge: ""}.values()), IDLE_GAUGES["SGLang"]).startswith("MissingGauge")
    busy = {**lines, gauge: f"{gauge} 1.0\n"}
    assert trouble_in("".join(busy.values()), IDLE_GAUGES["SGLang"]).startswith("Busy")


def idle(pod: str = "a", incarnation: str = "0 x") -> Reading:
    return Reading(pod, incarnation, "")


def test_two_idle_rounds_in_a_row_are_needed() -> None:
    first, kept = verdict([idle("a"), idle("b")], {})
    assert first.startswith("IdleOnce")
    assert verdict([idle("a"), idle("b")], kept)[0] == ""
    busy, forgotten = verdict([idle("a"), Reading("b", "0 x", "Busy: b")], kept)
    assert busy == "Busy: b" and forgotten == {}
    assert verdict([idle("a"), idle("b")], forgotten)[0].startswith("IdleOnce")


def test_a_container_that_started_again_between_two_rounds_proves_nothing() -> None:
    _, kept = verdict([idle(incarnation="0 x")], {})
    again, kept = verdict([idle(incarnation="1 y")], kept)
    assert again.startswith("Restarted: Pod a")
    assert verdict([idle(incarnation="1 y")], kept)[0] == ""


def test_a_shape_without_an_answering_member_is_never_idle() -> None:
    assert verdict([], {})[0].startswith("UnreadableShape")
