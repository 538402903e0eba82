"""Whatever happens to a deployment of one role, in any order."""

from tests.rollout.machine import IN_CI, Rollout

TestRollout = Rollout.TestCase
TestRollout.settings = IN_CI
