"""Serve large language models on Kubernetes from Pulumi: replicas admitted by Kueue, rolled one at a time.

The public names load on first use, so importing the package costs next to nothing:

    import gpustack_components as gpustack

    gpustack.ModelDeployment("qwen", namespace="team-a", spec=gpustack.ModelDeploymentSpec(...), bindings=[...])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack_components.api.model_deployment import ModelDeploymentSpec as ModelDeploymentSpec
    from gpustack_components.components.files import Deployed as Deployed
    from gpustack_components.components.files import from_files as from_files
    from gpustack_components.components.instance_type import InstanceType as InstanceType
    from gpustack_components.components.model_deployment import ModelDeployment as ModelDeployment

__version__ = "0.1.0"

_HOMES = {
    "Deployed": "components.files",
    "InstanceType": "components.instance_type",
    "ModelDeployment": "components.model_deployment",
    "ModelDeploymentSpec": "api.model_deployment",
    "from_files": "components.files",
}

__all__ = ["Deployed", "InstanceType", "ModelDeployment", "ModelDeploymentSpec", "__version__", "from_files"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
