"""Deploys every manifest that `gpustack-components:manifests` names; a platform repository needs no code of its own."""

import pulumi

import gpustack_components as gpustack
from gpustack_components.components import config

deployed = gpustack.from_files(config.manifests())
pulumi.export("endpoints", deployed.endpoints)
