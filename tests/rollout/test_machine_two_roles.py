"""Whatever happens to a deployment of two roles, in any order."""

from tests.rollout.machine import PairRollout, looked_at

TestPairRollout = PairRollout.TestCase
TestPairRollout.settings = looked_at(runs=4_000)
