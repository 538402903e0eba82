"""Which cluster is meant, decided as client-go and so pulumi-kubernetes and kubectl decide it.

The argument (a path or a kubeconfig's text), else the files that KUBECONFIG lists, else `~/.kube/config`, else the
service account of the Pod this runs in. The official client merges several files in another order than client-go (its
last current-context wins), so merging is done here, and every way to go wrong gets its sentence.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.port import Json

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a Pod finds its token and the cluster's CA."""

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


@dataclass(frozen=True, slots=True)
class Source:
    """Where the way to a cluster is written; read again when credentials have expired."""

    text: str | None = None
    """A kubeconfig's text, or None."""
    paths: tuple[Path, ...] = ()
    """Kubeconfig files, first one strongest."""
    origin: str = ""
    """What named them, for sentences: `the argument`, `KUBECONFIG`, `the default location`."""

    @property
    def in_cluster(self) -> bool:
        """Whether the Pod's service account is meant."""
        return self.text is None and not self.paths


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig: which cluster, and as whom."""

    config: Json
    """The merged kubeconfig, file references made absolute."""
    context: str
    """The context's name."""
    server: str
    """The API server's URL."""
    cluster: Json
    """The cluster entry."""
    user: Json
    """The user entry; holds credentials."""

    def __repr__(self) -> str:
        return f"Access(context={self.context!r}, server={self.server!r})"

    @property
    def impersonation(self) -> dict[str, str]:
        """Headers for the `as` fields of the user entry, which the official client does not send."""
        headers: dict[str, str] = {}
        if self.user.get("as"):
            headers["Impersonate-User"] = str(self.user["as"])
        if self.user.get("as-uid"):
            headers["Impersonate-Uid"] = str(self.user["as-uid"])
        if self.user.get("as-groups") or self.user.get("as-user-extra"):
            raise KubeconfigError(
                f"Context {self.context} impersonates groups or extra fields (as-groups, as-user-extra), which is not "
                "supported here. Use a context that impersonates a user only, or none."
            )
        return headers


def locate(kubeconfig: str | None, *, in_cluster: bool = False, environ: Mapping[str, str] = os.environ) -> Source:
    """Where to read; raises `KubeconfigError` when nothing is found."""
    if in_cluster:
        return Source(origin="the argument")
    if kubeconfig is not None and kubeconfig.strip():
        return _argument(kubeconfig)
    listed = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    there = tuple(path for path in listed if path.exists())
    if there:
        return Source(paths=there, origin="KUBECONFIG")
    default = Path("~/.kube/config").expanduser()
    if not listed and default.exists():
        return Source(paths=(default,), origin="the default location")
    if environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        return Source(origin="the Pod's service account")
    if listed:
        names = ", ".join(map(str, listed))
        raise KubeconfigError(f"KUBECONFIG names {names}, which does not exist. Correct it, or unset it.")
    raise KubeconfigError(
        f"No cluster is known: no kubeconfig given, KUBECONFIG not set, and no {default}. Give a kubeconfig (path or "
        "text), or set KUBECONFIG."
    )


def read(source: Source, context: str | None = None) -> Access:
    """The context asked for, or the current one; raises `KubeconfigError` with what is wrong and the way out."""
    if source.text is not None:
        merged = _document(source.text, "The kubeconfig text", None)
    else:
        merged = _merge([_file(path) for path in source.paths])
    where = "the kubeconfig text" if source.text is not None else ", ".join(map(str, source.paths))
    return _choose(merged, context, where)


def _argument(kubeconfig: str) -> Source:
    stripped = kubeconfig.strip()
    if "\n" in stripped or stripped.startswith(("{", "#", "apiVersion:")):
        return Source(text=kubeconfig, origin="the argument")
    if len(stripped) > 1024:
        raise KubeconfigError(
            "The kubeconfig given is neither a path nor YAML. If it is base64, decode it first and give the text."
        )
    path = Path(stripped).expanduser()
    if not path.exists():
        raise KubeconfigError(f"The kubeconfig {path} does not exist. Give the path of a file, or a kubeconfig's text.")
    return Source(paths=(path,), origin="the argument")


def _file(path: Path) -> Json:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise KubeconfigError(f"The kubeconfig {path} is not text.") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KubeconfigError(f"The kubeconfig {path} cannot be read: {reason}.") from None
    return _document(text, f"The kubeconfig {path}", path.absolute().parent)


def _document(text: str, name: str, folder: Path | None) -> Json:
    try:
        value: Any = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (safe either way)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise KubeconfigError(f"{name} is not valid YAML{place}. Correct it, or make it anew.") from None
    if value is None:
        raise KubeconfigError(f"{name} is empty.")
    if not isinstance(value, dict):
        raise KubeconfigError(f"{name} is not a kubeconfig: a mapping with clusters, contexts and users is expected.")
    config = cast("Json", value)
    for section, content in _SECTIONS.items():
        entries: Any = config.get(section) or []
        config[section] = entries
        if not isinstance(entries, list) or not all(_entry(entry, content) for entry in cast("list[Any]", entries)):
            raise KubeconfigError(f"{name}: every entry of {section} needs a name and a {content} mapping.")
        if folder is not None:
            for entry in cast("list[Json]", entries):
                _absolute(entry[content], _FILES.get(content, ()), folder)
    return config


def _entry(entry: Any, content: str) -> bool:
    if not isinstance(entry, dict) or not isinstance(cast("Json", entry).get("name"), str):
        return False
    values = cast("Json", entry)
    values[content] = {} if content == "user" and values.get(content) is None else values.get(content)
    return isinstance(values[content], dict)


def _absolute(content: Json, keys: tuple[str, ...], folder: Path) -> None:
    for key in keys:
        if isinstance(content.get(key), str) and content[key]:
            content[key] = str(folder / content[key])
    plugin: Any = content.get("exec")
    if isinstance(plugin, dict):
        command = cast("Json", plugin).get("command")
        if isinstance(command, str) and os.sep in command:
            plugin["command"] = str(folder / command)


def _merge(configs: list[Json]) -> Json:
    merged: Json = {"apiVersion": "v1", "kind": "Config", "current-context": ""}
    for section in _SECTIONS:
        entries: dict[str, Json] = {}
        for config in configs:
            for entry in config[section]:
                entries.setdefault(entry["name"], entry)
        merged[section] = list(entries.values())
    merged["current-context"] = next((c["current-context"] for c in configs if c.get("current-context")), "")
    return merged


def _choose(config: Json, context: str | None, where: str) -> Access:
    contexts: dict[str, Json] = {entry["name"]: entry["context"] for entry in config["contexts"]}
    clusters: dict[str, Json] = {entry["name"]: entry["cluster"] for entry in config["clusters"]}
    users: dict[str, Json] = {entry["name"]: entry["user"] for entry in config["users"]}
    name = context or str(config.get("current-context") or "")
    known = ", ".join(sorted(contexts)) or "none"
    if not name:
        raise KubeconfigError(f"No context chosen in {where}: current-context is empty. Name one of: {known}.")
    if name not in contexts:
        raise KubeconfigError(f"There is no context {name} in {where}. Its contexts: {known}.")
    chosen = contexts[name]
    cluster_name, user_name = str(chosen.get("cluster") or ""), str(chosen.get("user") or "")
    if cluster_name not in clusters:
        cluster_names = ", ".join(sorted(clusters)) or "none"
        raise KubeconfigError(
            f"Context {name} in {where} names cluster {cluster_name or '(none)'}, which it does not define. Its "
            f"clusters: {cluster_names}."
        )
    if user_name and user_name not in users:
        user_names = ", ".join(sorted(users)) or "none"
        raise KubeconfigError(
            f"Context {name} in {where} names user {user_name}, which it does not define. Its users: {user_names}."
        )
    server = str(clusters[cluster_name].get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"Cluster {cluster_name} in {where} has no usable server address. Set `server` to the API server's "
            "https:// URL."
        )
    user = users.get(user_name, {})
    _files_exist(name, clusters[cluster_name], _FILES["cluster"])
    _files_exist(name, user, _FILES["user"])
    return Access({**config, "current-context": name}, name, server.rstrip("/"), clusters[cluster_name], user)


def _files_exist(context: str, content: Json, keys: tuple[str, ...]) -> None:
    for key in keys:
        path = content.get(key)
        if path and not content.get(f"{key}-data") and not Path(str(path)).exists():
            raise KubeconfigError(f"Context {context}: {key} names {path}, which does not exist.")
