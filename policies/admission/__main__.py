from pulumi_policy import PolicyPack

from policies.admission.pack import POLICIES

PolicyPack("gpustack-admission", POLICIES)
