"""Every manifest under `deployments/`, or whatever `gpustack-components:manifests` names instead."""

import pulumi

import gpustack_components as gpustack

patterns = pulumi.Config("gpustack-components").get_object("manifests", ["deployments/*.yaml"])
deployed = gpustack.from_files(patterns or [])
pulumi.export("endpoints", deployed.endpoints)
