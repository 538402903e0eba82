"""Credentials that a kubeconfig holds as they are: a client certificate, a token, user name and password.

They are presented as client-go presents them: inline data wins over a file, a token over user name and password.
"""

import base64
import binascii
import ssl
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.kubeconfig import Access
from gpustack_components.cluster.login import POOL_SIZE, Login, keep_alive
from gpustack_components.cluster.port import Json


def suffices(access: Access) -> bool:
    """Whether nothing has to be run, refreshed or gone through: no login command, no auth provider, no proxy."""
    if "exec" in access.user or "auth-provider" in access.user or access.cluster.get("proxy-url"):
        return False
    proxies = getproxies()
    return not (proxies.get(urlsplit(access.server).scheme) or proxies.get("all"))


def log_in(access: Access, folder: str) -> Login:
    """Read them, inline certificates into the folder; raises `KubeconfigError`."""
    header = _authorization(access)
    https = access.server.startswith("https")

    def pem(content: Json, key: str) -> str | None:
        return _pem(access.context, content, key, folder) if https else None

    return Login(
        server=access.server,
        pool=partial(_pool, access.cluster.get("tls-server-name")),
        authorization=lambda: header,
        verify=not access.cluster.get("insecure-skip-tls-verify"),
        ca_file=pem(access.cluster, "certificate-authority"),
        cert_file=pem(access.user, "client-certificate"),
        key_file=pem(access.user, "client-key"),
    )


def _pool(server_name: str | None, tls: ssl.SSLContext | None) -> Any:
    import urllib3

    secured: dict[str, Any] = {"ssl_context": tls, "cert_reqs": tls.verify_mode} if tls else {}
    if tls and server_name:
        secured["server_hostname"] = server_name
    return urllib3.PoolManager(maxsize=POOL_SIZE, socket_options=keep_alive(), **secured)


def _authorization(access: Access) -> dict[str, str]:
    user = access.user
    token = str(user.get("token") or "") or _token_of(access.context, user.get("tokenFile"))
    if token:
        return {"authorization": f"Bearer {token}"}
    if "username" in user and "password" in user:
        pair = f"{user['username']}:{user['password']}".encode()
        return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _token_of(context: str, path: Any) -> str:
    if not path:
        return ""
    try:
        return Path(str(path)).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise KubeconfigError(f"Context {context}: the tokenFile {path} cannot be read: {reason}.") from None


def _pem(context: str, content: Json, key: str, folder: str) -> str | None:
    data = content.get(f"{key}-data")
    if not data:
        path = content.get(key)
        return str(path) if path else None
    try:
        decoded = base64.b64decode(str(data).encode("ascii"))
    except (binascii.Error, UnicodeEncodeError):
        raise KubeconfigError(
            f"Context {context}: {key}-data is not base64. Encode the PEM file once, or name it in {key}."
        ) from None
    file = Path(folder) / f"{key}.pem"
    file.touch(mode=0o600)
    file.write_bytes(decoded)
    return str(file)
