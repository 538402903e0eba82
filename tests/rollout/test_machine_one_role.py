"""Whatever happens to a deployment of one role, in any order."""

from tests.rollout.machine import Rollout, looked_at

TestRollout = Rollout.TestCase
TestRollout.settings = looked_at(runs=6_000)
