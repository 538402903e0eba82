"""A small client of the API server, for what a start needs before any other client can work.

The sandbox may not lean on the package it is there to test, and `kubectl` may not be a version that fits; so it speaks
HTTP itself.
"""

import contextlib
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.pki import Pair

Manifest = dict[str, Any]
"""A Kubernetes object as JSON."""

_COLLECTIONS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicybindings",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


class Api:
    """The API server of one instance, as cluster administrator."""

    def __init__(self, port: int, authority: Path, client: Pair) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._tls.load_cert_chain(client.certificate, client.key)

    def request(
        self, method: str, path: str, body: Manifest | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send one request; returns status and body. Raises OSError when there is no answer within 15 seconds."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=15, context=self._tls)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": content_type, "User-Agent": "sandbox"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def get(self, path: str) -> Manifest:
        """Read an object or a list. Raises SandboxError on any status but 200."""
        status, body = self.request("GET", path)
        return self._checked(f"GET {path}", status, body)

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Server-side apply one object, taking over fields others own. Raises SandboxError with the server's words."""
        metadata = manifest["metadata"]
        collection = _COLLECTIONS[manifest["kind"]].format(namespace=metadata.get("namespace"))
        path = f"{collection}/{metadata['name']}?fieldManager=sandbox&force=true{'&dryRun=All' if dry_run else ''}"
        status, body = self.request("PATCH", path, manifest, "application/apply-patch+yaml")
        return self._checked(f"apply {manifest['kind']} {metadata['name']}", status, body)

    def ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    @staticmethod
    def _checked(what: str, status: int, body: bytes) -> Manifest:
        if status not in (200, 201):
            text = body.decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(body)["message"]
            raise SandboxError(f"kube-apiserver: {what}: {status} {text}")
        return json.loads(body)
