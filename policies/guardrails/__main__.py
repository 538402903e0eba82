from pulumi_policy import PolicyPack

from policies.guardrails.pack import POLICIES

PolicyPack("gpustack-guardrails", POLICIES)
