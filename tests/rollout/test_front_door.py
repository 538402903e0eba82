"""When a router counts as answering, read from its Deployment."""

from typing import Any

import pytest

from gpustack_components.rollout import front_door
from gpustack_components.rollout.contract import Timeouts
from gpustack_components.rollout.wording import no_answer


def deployment(asked: int = 1, **status: Any) -> dict[str, Any]:
    conditions = [{"type": kind, "status": value, "message": text} for kind, value, text in status.pop("said", ())]
    return {
        "metadata": {"name": "qwen-router", "generation": 2},
        "spec": {"replicas": asked},
        "status": {"observedGeneration": 2, **status, "conditions": conditions},
    }


def counts(total: int, updated: int, available: int) -> dict[str, int]:
    return {"replicas": total, "updatedReplicas": updated, "availableReplicas": available, "readyReplicas": available}


STUCK = ("Progressing", "False", "ReplicaSet has timed out progressing.")
QUOTA = ("ReplicaFailure", "True", 'pods "qwen-router-x" is forbidden: exceeded quota')


@pytest.mark.parametrize(
    ("router", "lacks"),
    [
        pytest.param(None, "Deployment qwen-router does not exist: a run that adds", id="none"),
        pytest.param(deployment(), "0 of 1 Pods of Deployment qwen-router are up to date and ready", id="no Pod yet"),
        pytest.param(deployment(**counts(1, 1, 1)), "", id="one of one"),
        pytest.param(deployment(2, **counts(2, 2, 1)), "1 of 2 Pods of", id="one of two"),
        pytest.param(
            deployment(**counts(2, 1, 1)), "0 of 1 Pods of", id="the old Pod serves, the new one is not ready"
        ),
        pytest.param(deployment(**counts(2, 1, 2)), "1 of 1 Pods of", id="the old Pod has not left yet"),
        pytest.param(deployment(**counts(1, 1, 1), observedGeneration=1), "not been looked at", id="an unseen edit"),
        pytest.param(deployment(**counts(1, 1, 0), said=[STUCK]), "timed out progressing", id="stuck"),
        pytest.param(deployment(said=[QUOTA]), "exceeded quota", id="its Pods are refused"),
    ],
)
def test_a_router_answers_once_every_replica_runs_the_current_template_and_is_available(
    router: dict[str, Any] | None, lacks: str
) -> None:
    found = front_door.missing(router, "qwen-router")
    assert lacks in found and bool(lacks) == bool(found)


@pytest.mark.parametrize(
    ("router", "way_out"),
    [
        pytest.param(None, "if it was deleted, `pulumi up --refresh` makes it again.", id="none"),
        pytest.param(
            deployment(),
            "`kubectl -n team-a describe pod -l app.kubernetes.io/instance=qwen,"
            "modeldeployment.gpustack.ai/router` shows why.",
            id="no Pod ready",
        ),
    ],
)
def test_a_run_that_gives_up_on_the_router_names_the_way_out(router: dict[str, Any] | None, way_out: str) -> None:
    lacks = front_door.missing(router, "qwen-router")
    reason = no_answer("team-a", "qwen", lacks, 20, Timeouts(ready=20), deployed=router is not None)
    assert reason.startswith("qwen router: not ready after 20 s (timeouts.ready 20 s): ")
    assert reason.endswith(way_out)
    assert router is not None or "describe" not in reason


@pytest.mark.parametrize(
    ("router", "published"), [(None, False), (deployment(), False), (deployment(**counts(2, 1, 1)), True)]
)
def test_the_endpoint_is_published_while_any_router_replica_is_ready(router: Any, published: bool) -> None:
    assert front_door.answers(router) is published
