"""Whatever happens to a deployment of two roles, in any order."""

import pytest

from tests.rollout.machine import PairRollout, looked_at

pytestmark = pytest.mark.timeout(7200)
TestPairRollout = PairRollout.TestCase
TestPairRollout.settings = looked_at(runs=4_000)
