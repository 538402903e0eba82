"""Every manifest under `deployments/`, deployed as it stands."""

import pulumi

import gpustack_components as gpustack

deployed = gpustack.from_files("deployments/*.yaml")
pulumi.export("endpoints", deployed.endpoints)
