"""What a router may do in its namespace: watch Pods, and nothing else (router sheet 4)."""

from gpustack_components.api.names import router_name
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster.port import Json
from gpustack_components.render.router.identity import metadata

_GROUP = "rbac.authorization.k8s.io"


def service_account(resolved: ResolvedDeployment) -> Json:
    """The account router Pods run under."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(resolved)}


def role(resolved: ResolvedDeployment) -> Json:
    """The right to read and watch Pods of the namespace."""
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": metadata(resolved), "rules": [rule]}


def role_binding(resolved: ResolvedDeployment) -> Json:
    """That right given to that account."""
    name = router_name(resolved.name)
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(resolved),
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": resolved.namespace}],
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
    }
