"""Command lines and configuration of everything that runs in an instance.

Each function takes ports and paths and returns what to start; nothing here starts anything. Every part has a user of
its own in the cluster, so that the audit log holds only what other clients asked for.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sandbox.instance import Instance
from sandbox.pki import Authority, Pair, rsa_key, signing_key
from sandbox.toolchain import Toolchain

SERVICE_RANGE = "10.96.0.0/16"
"""Addresses of Services."""
POD_RANGE = "10.244.0.1/16"
"""Addresses of Pods; nothing routes them."""
UNMANAGED_NAMESPACES = ("kube-system", "kueue-system")
"""Namespaces whose Pods Kueue leaves alone."""
SILENT_NODE_LABEL = "sandbox.gpustack.ai/kubelet"
"""A Node with this label and the value `silent` has no kubelet: no heartbeat, and its Pods neither start nor exit."""

_MANIFESTS = Path(__file__).parent / "manifests"
_PARTS_USERS = ("kube-controller-manager", "kube-scheduler", "kueue", "kwok", "sandbox")


@dataclass(frozen=True)
class Launch:
    """How to start one part."""

    name: str
    """Name of the part."""
    argv: tuple[str, ...]
    """Program and arguments."""
    health: str
    """URL that answers 200 when it is ready."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """What is added to the environment."""


@dataclass(frozen=True)
class Identity:
    """Certificates and keys of one instance."""

    authority: Authority
    """Signs everything but Kueue's webhook certificate."""
    server: Pair
    """What the API server shows to clients."""
    admin: Pair
    """The person or test that uses the cluster."""
    clients: dict[str, Pair]
    """The parts, by user name."""
    service_accounts: Path
    """Key that signs service-account tokens."""
    webhook_authority: Pair
    """Signs Kueue's webhook certificate; Kueue accepts it as its own."""
    webhook: Pair
    """What Kueue's webhooks show to the API server."""

    @classmethod
    def create(cls, directory: Path) -> "Identity":
        """Make all of them in the folder."""
        authority = Authority.create(directory, "ca")
        # Kueue reads its authority's key as RSA only, even where it does not sign with it.
        webhooks = Authority.create(directory, "kueue-ca", key=rsa_key())
        return cls(
            authority=authority,
            server=authority.server("apiserver", "10.96.0.1", "kubernetes.default.svc"),
            admin=authority.client("admin", "admin", "system:masters"),
            clients={user: authority.client(user, f"sandbox:{user}", "system:masters") for user in _PARTS_USERS},
            service_accounts=signing_key(directory / "service-accounts.key"),
            webhook_authority=webhooks.pair,
            webhook=webhooks.server("webhook", "kueue-webhook-service.kueue-system.svc"),
        )


@dataclass(frozen=True)
class Context:
    """What all parts of one instance share."""

    tools: Toolchain
    """Programs to run."""
    instance: Instance
    """Folder to write to."""
    identity: Identity
    """Certificates and keys."""
    api_port: int = 0
    """Port of the API server; 0 until it is known."""


def write_kubeconfig(path: Path, api_port: int, authority: Path, client: Pair) -> None:
    """A kubeconfig with everything inside it, mode 0600."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "clusters": [
            {
                "name": "sandbox",
                "cluster": {
                    "server": f"https://127.0.0.1:{api_port}",
                    "certificate-authority-data": _base64(authority),
                },
            }
        ],
        "users": [
            {
                "name": "sandbox",
                "user": {
                    "client-certificate-data": _base64(client.certificate),
                    "client-key-data": _base64(client.key),
                },
            }
        ],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def etcd(context: Context, client_port: int, peer_port: int) -> Launch:
    """The API server's store."""
    argv = (
        str(context.tools.control_plane),
        "etcd",
        f"--data-dir={context.instance.directory / 'etcd'}",
        f"--client-port={client_port}",
        f"--peer-port={peer_port}",
    )
    return Launch("etcd", argv, f"http://127.0.0.1:{client_port}/health")


def kube_apiserver(context: Context, port: int, etcd_port: int) -> Launch:
    """The API server with its default admission, and mutating policies for `sandbox.gpustack.ai/*`."""
    policy = context.instance.config / "audit-policy.json"
    policy.write_text(json.dumps(_audit_policy(), indent=1))
    argv = (
        str(context.tools.control_plane),
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={context.identity.server.certificate}",
        f"--tls-private-key-file={context.identity.server.key}",
        f"--client-ca-file={context.identity.authority.pair.certificate}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={context.identity.service_accounts}",
        f"--service-account-signing-key-file={context.identity.service_accounts}",
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={context.instance.audit_log}",
        "--endpoint-reconciler-type=none",
        "--profiling=false",
    )
    return Launch("kube-apiserver", argv, f"https://127.0.0.1:{port}/readyz")


def kube_controller_manager(context: Context, port: int) -> Launch:
    """All controllers that a cluster without a cloud runs by default."""
    argv = (
        str(context.tools.control_plane),
        "kube-controller-manager",
        f"--kubeconfig={_own_kubeconfig(context, 'kube-controller-manager')}",
        f"--service-account-private-key-file={context.identity.service_accounts}",
        f"--root-ca-file={context.identity.authority.pair.certificate}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--profiling=false",
    )
    return Launch("kube-controller-manager", argv, f"https://127.0.0.1:{port}/healthz")


def kube_scheduler(context: Context, port: int) -> Launch:
    """The scheduler with its default profile."""
    argv = (
        str(context.tools.control_plane),
        "kube-scheduler",
        f"--kubeconfig={_own_kubeconfig(context, 'kube-scheduler')}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--profiling=false",
    )
    return Launch("kube-scheduler", argv, f"https://127.0.0.1:{port}/readyz")


@dataclass(frozen=True)
class KueuePorts:
    """Loopback ports of Kueue."""

    webhook: int
    """Serves admission and conversion."""
    health: int
    """Serves /readyz."""
    metrics: int
    """Serves Prometheus metrics, over TLS, to authorized clients."""


def kueue(context: Context, ports: KueuePorts) -> Launch:
    """Kueue, managing plain Pods in every namespace but the system's.

    With internal certificates off it reads its metrics certificate from one fixed folder that only root can write.
    With them on it wants to issue its own: it keeps those it finds in its Secret while they are valid, so it is given
    ours there and in its folder.
    """
    certificates = context.instance.config / "kueue-webhook"
    certificates.mkdir(exist_ok=True)
    (certificates / "tls.crt").write_bytes(context.identity.webhook.certificate.read_bytes())
    (certificates / "tls.key").touch(mode=0o600)
    (certificates / "tls.key").write_bytes(context.identity.webhook.key.read_bytes())
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{ports.metrics}"},
        "webhook": {"host": "127.0.0.1", "port": ports.webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True},
        "clientConnection": {"qps": 200, "burst": 400},
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchExpressions": _managed_namespaces()},
    }
    path = context.instance.config / "kueue.json"
    path.write_text(json.dumps(configuration, indent=1))
    argv = (str(context.tools.kueue), f"--config={path}", "--feature-gates=VisibilityOnDemand=false")
    env = {"KUBECONFIG": str(_own_kubeconfig(context, "kueue"))}
    return Launch("kueue", argv, f"http://127.0.0.1:{ports.health}/readyz", env)


def kueue_crds(context: Context, webhook_port: int) -> Iterator[dict[str, Any]]:
    """Kueue's CRDs; conversion webhooks are by URL, since Services lead nowhere here."""
    folder = context.tools.kueue_manifests
    listed: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    converted = {Path(patch["path"]).stem.removeprefix("webhook_in_") for patch in listed["patches"]}
    for name in listed["resources"]:
        crd: dict[str, Any] = yaml.safe_load((folder / name).read_text())
        if crd["spec"]["names"]["plural"] in converted:
            crd["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": _webhook_client(context, webhook_port, "/convert"),
                    "conversionReviewVersions": ["v1"],
                },
            }
        yield crd


def kueue_admission(context: Context, webhook_port: int) -> Iterator[dict[str, Any]]:
    """Kueue's namespace, webhook certificate, and webhooks by URL, without those of job kinds that are off."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": "kueue-system"},
        "data": {
            "ca.crt": _base64(context.identity.webhook_authority.certificate),
            "ca.key": _base64(context.identity.webhook_authority.key),
            "tls.crt": _base64(context.identity.webhook.certificate),
            "tls.key": _base64(context.identity.webhook.key),
        },
    }
    for document in yaml.safe_load_all((context.tools.kueue_manifests / "manifests.yaml").read_text()):
        kept: list[dict[str, Any]] = []
        for webhook in document["webhooks"]:
            path: str = webhook["clientConfig"]["service"]["path"]
            is_pod = path.endswith("--v1-pod")
            if is_pod or "-kueue-x-k8s-io-" in path:
                webhook["clientConfig"] = _webhook_client(context, webhook_port, path)
                if is_pod:
                    webhook["namespaceSelector"] = {"matchExpressions": _managed_namespaces()}
                kept.append(webhook)
        name = f"kueue-{document['metadata']['name']}"
        yield {**document, "metadata": {"name": name}, "webhooks": kept}


def kwok(context: Context, port: int) -> Launch:
    """Kubelets of all Nodes but the silent ones; our stages keep finalizers and honour the grace period."""
    argv = (
        str(context.tools.kwok),
        f"--config={_MANIFESTS / 'stages.yaml'}",
        f"--kubeconfig={_own_kubeconfig(context, 'kwok')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={SILENT_NODE_LABEL}!=silent",
        f"--cidr={POD_RANGE}",
        "--node-ip=127.0.0.1",
        f"--server-address=127.0.0.1:{port}",
    )
    return Launch("kwok", argv, f"http://127.0.0.1:{port}/healthz")


def nodes() -> Iterator[dict[str, Any]]:
    """Two Nodes with eight GPUs each, `gpu-0` and `gpu-1`, and `cpu-0` without any."""
    common = {"cpu": "192", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110"}
    devices = {"nvidia.com/gpu": "8", "device.gpustack.ai/rdma": "8", "device.gpustack.ai/rdma.shared": "8"}
    for number, name in enumerate(("gpu-0", "gpu-1", "cpu-0")):
        is_gpu = name.startswith("gpu")
        resources = common | (devices if is_gpu else {})
        labels = {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "sandbox",
            "topology.kubernetes.io/zone": f"sandbox-{number % 2}",
        }
        if is_gpu:
            labels["gpu"] = "h20"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": resources, "capacity": resources},
        }


def policies() -> Iterator[dict[str, Any]]:
    """What hands a namespace's `sandbox.gpustack.ai/*` annotations down to the Pods that are created in it."""
    yield from yaml.safe_load_all((_MANIFESTS / "namespace-defaults.yaml").read_text())


def _audit_policy() -> dict[str, Any]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": [f"sandbox:{user}" for user in _PARTS_USERS]},
            {"level": "None", "users": ["system:apiserver", "system:anonymous"]},
            {"level": "Metadata"},
        ],
    }


def _managed_namespaces() -> list[dict[str, Any]]:
    return [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(UNMANAGED_NAMESPACES)}]


def _webhook_client(context: Context, port: int, path: str) -> dict[str, str]:
    return {
        "url": f"https://127.0.0.1:{port}{path}",
        "caBundle": _base64(context.identity.webhook_authority.certificate),
    }


def _own_kubeconfig(context: Context, user: str) -> Path:
    path = context.instance.config / f"{user}.kubeconfig"
    write_kubeconfig(
        path, context.api_port, context.identity.authority.pair.certificate, context.identity.clients[user]
    )
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
