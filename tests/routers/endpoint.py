"""Clients of a published endpoint: its host name is resolved, and its Service followed, as in a cluster."""

import http.client
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gpustack_components.cluster.port import ENDPOINT_SLICE, SERVICE
from gpustack_components.cluster.readings import at, each
from tests.routers.calls import Caller
from tests.routers.site import Site

Json = dict[str, Any]


@dataclass
class Endpoint(Caller):
    """Callers of one URL, `http://<service>.<namespace>.svc:<port>`."""

    site: Site
    """Where its Pods answer."""
    url: str
    """As published."""

    @property
    def model(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The site's."""
        return self.site.model

    def connection(self, seconds: float, port: int) -> http.client.HTTPConnection:
        """To a Pod that the Service leads to at this moment. Raises `ConnectionRefusedError` while there is none."""
        host = urlsplit(self.url)
        name, namespace, zone = str(host.hostname).split(".")
        service = self.site.cluster.get(SERVICE, namespace, name)
        entry = next((one for one in each(service, "spec", "ports") if one["port"] == host.port), None)
        if zone != "svc" or entry is None:
            raise ConnectionRefusedError(f"nothing is published at {self.url}")
        slices = self.site.cluster.list(ENDPOINT_SLICE, namespace, f"kubernetes.io/service-name={name}").items
        pods = [
            (address, named["port"])
            for slice_ in slices
            for endpoint in each(slice_, "endpoints")
            if at(endpoint, "conditions", "ready")
            for address in endpoint["addresses"]
            for named in each(slice_, "ports")
            if named["name"] == entry["name"]
        ]
        if not pods:
            raise ConnectionRefusedError(f"no Pod answers for {self.url}")
        address, number = random.choice(pods)
        return self.site.network_at(address).connection(address, number, seconds)
