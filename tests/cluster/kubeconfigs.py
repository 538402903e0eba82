"""Kubeconfigs for tests, as text."""

import json
from typing import Any


def kubeconfig(
    server: str, *, name: str = "here", cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> str:
    """A kubeconfig of one context, cluster and user, all of one name."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
            "users": [{"name": name, "user": user or {}}],
        }
    )
