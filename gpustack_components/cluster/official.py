"""Logging in through the official client: login commands, logins that are refreshed, proxies, a Pod's service account.

It is imported on first use only, for it costs several hundred milliseconds.
"""

import contextlib
import io
import logging
import ssl
import threading
from collections.abc import Generator
from typing import Any

from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.kubeconfig import Access
from gpustack_components.cluster.login import POOL_SIZE, Login, keep_alive
from gpustack_components.cluster.port import Unauthorized
from gpustack_components.cluster.readings import at

_loading = threading.Lock()


def log_in(access: Access | None, folder: str) -> Login:
    """Log in to a context, as the Pod's service account without one; the folder takes the files the client writes.
    Raises `KubeconfigError`, or `Unauthorized` when a login command fails.
    """
    with _loading:  # the official client's modules import each other, which two threads at once end with half of one
        from kubernetes.client import Configuration  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    configuration: Any = Configuration()
    configuration.socket_options = keep_alive()
    configuration.connection_pool_maxsize = POOL_SIZE
    with _loading:
        if access is None:
            _load_in_cluster(configuration)
        else:
            _load(access, configuration, folder)
    ca_file, cert_file, key_file = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    refreshing = threading.Lock()

    def pool(tls: ssl.SSLContext | None) -> Any:
        return _pool(configuration, tls)

    def authorization() -> dict[str, str]:
        with refreshing, _captured_errors():
            settings: dict[str, Any] = configuration.auth_settings()
        return {setting["key"]: setting["value"] for setting in settings.values() if setting.get("value")}

    return Login(
        str(configuration.host).rstrip("/"),
        pool,
        authorization,
        verify=bool(configuration.verify_ssl),
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
    )


def _pool(configuration: Any, tls: ssl.SSLContext | None) -> Any:
    with _loading:
        from kubernetes.client.rest import RESTClientObject  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    try:
        pool: Any = RESTClientObject(configuration).pool_manager
    except (ImportError, ValueError) as error:
        socks = " (a SOCKS proxy needs the package pysocks)" if isinstance(error, ImportError) else ""
        raise KubeconfigError(f"The proxy that is configured cannot be used: {error}{socks}.") from None
    if tls is not None:
        for key in ("ca_certs", "ca_cert_data", "cert_file", "key_file"):
            pool.connection_pool_kw.pop(key, None)
        pool.connection_pool_kw["ssl_context"] = tls
    return pool


def _load(access: Access, configuration: Any, folder: str) -> None:
    from kubernetes.config.config_exception import ConfigException  # pyright: ignore[reportMissingTypeStubs]
    from kubernetes.config.kube_config import KubeConfigLoader  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    with _captured_errors() as complaints:
        try:
            loader: Any = KubeConfigLoader(
                access.config, active_context=access.context, config_base_path="", temp_file_path=folder
            )
            loader.load_and_set(configuration)
        except (ConfigException, ValueError, TypeError, OSError) as error:
            detail = str(error) if isinstance(error, ConfigException) else type(error).__name__
            raise KubeconfigError(f"Context {access.context} cannot be used: {detail}.") from None
    if access.user.get("exec") and not configuration.api_key and not configuration.cert_file:
        command = at(access.user, "exec", "command") or "(none)"
        said = " ".join("; ".join(complaints).split())[:300]
        raise Unauthorized(
            f"The login command of context {access.context} ({command}) gave no credentials: {said or 'no output'}. "
            "Run it by hand, or log in again."
        )


def _load_in_cluster(configuration: Any) -> None:
    from kubernetes.config.config_exception import ConfigException  # pyright: ignore[reportMissingTypeStubs]
    from kubernetes.config.incluster_config import load_incluster_config  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise KubeconfigError(
            f"The Pod's service account cannot be used: {error} Does this run in a Pod with a mounted token?"
        ) from None


@contextlib.contextmanager
def _captured_errors() -> Generator[list[str]]:
    """The official client only logs when a login command fails; take those lines instead of letting them be printed."""
    stream = io.StringIO()
    here = threading.get_ident()
    handler = logging.StreamHandler(stream)
    handler.addFilter(lambda record: record.thread == here)
    root = logging.getLogger()
    lines: list[str] = []
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        lines.extend(line for line in stream.getvalue().splitlines() if line.strip())
