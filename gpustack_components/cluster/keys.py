"""Every label, annotation, finalizer and gate key that Kueue or this product reads.

Rollout sheet 1.1, rendering sheet 14.
"""

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
GROUP_SERVING = "kueue.x-k8s.io/pod-group-serving"
ROLE_HASH = "kueue.x-k8s.io/role-hash"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MANAGED = "kueue.x-k8s.io/managed"
"""Both the label Kueue's webhook puts on a Pod it has taken in, and the finalizer it puts there."""
WORKLOAD_FINALIZER = "kueue.x-k8s.io/resource-in-use"
ADMISSION_GATE = "kueue.x-k8s.io/admission"

APP_NAME = "app.kubernetes.io/name"
APP_INSTANCE = "app.kubernetes.io/instance"
APP_COMPONENT = "app.kubernetes.io/component"
APP_PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
APP_NAME_VALUE = "model-deployment"
PART_OF_VALUE = "gpustack-operator-worker"

ROLE_KIND = "modeldeployment.gpustack.ai/role-kind"
POD_ORDINAL = "modeldeployment.gpustack.ai/pod-ordinal"
MEMBER_INDEX = "modeldeployment.gpustack.ai/member-index"
POD_SPEC_HASH = "modeldeployment.gpustack.ai/pod-spec-hash"
RENDER_VERSION = "modeldeployment.gpustack.ai/render-version"
MIN_RENDER_VERSION = "modeldeployment.gpustack.ai/min-render-version"
ROUTER = "modeldeployment.gpustack.ai/router"
ROUTER_CONFIG_HASH = "modeldeployment.gpustack.ai/router-config-hash"
"""On router objects and router Pods only: which router it is."""
SCALER_BINDING = "modeldeployment.gpustack.ai/scaler-binding"
RETIREMENT_RETRY = "modeldeployment.gpustack.ai/retirement-retry"
ENDPOINT_ELIGIBLE = "modeldeployment.gpustack.ai/endpoint-eligible"
API_ANSWERING = "modeldeployment.gpustack.ai/api-answering"
OWNER = "modeldeployment.gpustack.ai/owner"
"""Our mark on an object no deployment owns alone (a LocalQueue): which stack made it.

Absent: not ours, never edited or deleted.
"""
DESCRIPTION = "kubernetes.io/description"
"""Kubernetes' annotation for what an object is, in words for people."""
CLIENT_CONFIG = "kvcache.gpustack.ai/client-config"
QUEUE_FULL_NAME = "schedule.gpustack.ai/queue"
QUEUE_ENTRANCE = "schedule.gpustack.ai/queue-entrance"
NODE_LABELS = "schedule.gpustack.ai/node-labels"
"""Annotation on an InstanceType document whose queue a program makes: the labels of its nodes, as `gpu=h20,zone=a`."""
NODES = "schedule.gpustack.ai/nodes"
"""Annotation beside `NODE_LABELS`: how many such nodes there are."""
NODES_ON_DEMAND = "schedule.gpustack.ai/nodes-on-demand"
"""Annotation, `true`, on a ResourceFlavor whose nodes an autoscaler adds: that there are none yet is no mistake."""
PROMETHEUS_PORT = "prometheus.io/port"
PROMETHEUS_SCHEME = "prometheus.io/scheme"

JOINT_CHECK = "gpustack-model-deployment-joint"
"""AdmissionCheck that holds the groups of a deployment of several roles until all have quota (rollout sheet 6)."""
PARK_MARK = "parked"
"""Word in the joint check's message once the hold has lasted too long and the Workload was deactivated."""

DEPLOYMENTS = f"{APP_NAME}={APP_NAME_VALUE}"
"""Label selector of what carries the labels of any deployment."""

FIELD_MANAGER = "gpustack-components"
MAIN_CONTAINER = "main"


def selector(deployment: str) -> str:
    """Label selector of everything that carries a deployment's labels, its router's objects and Pods included."""
    return f"{DEPLOYMENTS},{APP_INSTANCE}={deployment}"


def engine_selector(deployment: str) -> str:
    """Label selector of a deployment's own Pods: those of its replicas, and not its router's."""
    return f"{selector(deployment)},!{ROUTER}"
