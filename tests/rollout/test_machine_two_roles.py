"""Whatever happens to a deployment of two roles, in any order."""

from tests.rollout.machine import IN_CI, PairRollout

TestPairRollout = PairRollout.TestCase
TestPairRollout.settings = IN_CI
