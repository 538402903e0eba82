"""Deploys every manifest that `gpustack-components:manifests` names; a platform repository needs no code of its own."""

import pulumi

import gpustack_components as gpustack

pulumi.export("endpoints", gpustack.from_files().endpoints)
