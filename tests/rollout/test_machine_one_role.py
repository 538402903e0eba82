"""Whatever happens to a deployment of one role, in any order."""

import pytest

from tests.rollout.machine import Rollout, looked_at

pytestmark = pytest.mark.timeout(7200)
TestRollout = Rollout.TestCase
TestRollout.settings = looked_at(runs=6_000)
