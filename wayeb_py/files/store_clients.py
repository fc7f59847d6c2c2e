"""The bucket or the host of an address becomes Arrow's client of that store, one for each process.

Endpoints and credentials come from where each store's own tools look for them. A client keeps its connections, so it is
kept as well; a forked process makes its own, since threads do not survive a fork. Spark's workers are forked before
anything reads a store.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from wayeb_py.errors import DataError

SCHEMES = ("s3", "gs", "abfs", "hdfs", "webhdfs", "swebhdfs")
HDFS = ("hdfs", "webhdfs", "swebhdfs")
CONNECT_S, REQUEST_S = 10.0, 60.0

REMEDIES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws; AWS_ENDPOINT_URL and AWS_REGION say where",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`; "
    "STORAGE_EMULATOR_HOST names an emulator",
    "abfs": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, or AZURE_CLIENT_ID, "
    "AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or `az login`",
    "hdfs": "HADOOP_CONF_DIR and HADOOP_USER_NAME, and `kinit` where there is Kerberos",
    "webhdfs": "HADOOP_USER_NAME; the address has the port of the name node's web server, often 9870",
    "swebhdfs": "HADOOP_USER_NAME; the address has the port of the name node's web server, often 9871",
}

_AZURE = (
    "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN",
)  # fmt: skip
_clients: dict[tuple[str, tuple[str | None, ...]], Any] = {}
_inherited: set[str] = set()  # the schemes that a process used before it forked this one


def client_of(root: str) -> Any:
    """The client of `scheme://authority`; where the environment has other settings, another client."""
    scheme, _, authority = root.partition("://")
    endpoint = _endpoint_of(scheme)
    known = root, tuple(os.environ.get(name) for name in _AZURE) if scheme == "abfs" else (endpoint,)
    if known not in _clients:
        _clients[known] = _open(scheme, authority, endpoint)
    return _clients[known]


def keep_for_ever(thing: object) -> None:
    """Lets nothing destroy an object, not even the end of the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _forget_inherited() -> None:
    """The clients of the process that forked are never used here, nor closed, which would wait for their threads."""
    for (root, _), client in _clients.items():
        _inherited.add(root.partition("://")[0])
        keep_for_ever(client)
    _clients.clear()


os.register_at_fork(after_in_child=_forget_inherited)


def _endpoint_of(scheme: str) -> str | None:
    """Where the environment says that a store is, other than at its provider."""
    if scheme == "s3":
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if scheme == "gs":
        return os.environ.get("STORAGE_EMULATOR_HOST") or os.environ.get("CLOUD_STORAGE_EMULATOR_ENDPOINT")
    return None


def _open(scheme: str, authority: str, endpoint: str | None) -> Any:
    if scheme == "hdfs":
        if scheme in _inherited:  # hdfs-native shares connections to data nodes, and would wait for ever
            raise DataError(
                "a process that was forked from one that uses HDFS cannot use it",
                hint="start processes by multiprocessing.get_context('spawn')",
            )
        from wayeb_py.files.hdfs_client import open_hdfs  # for start-up time: most runs read no store

        return open_hdfs(authority)
    if scheme in HDFS:
        from wayeb_py.files.hdfs_client import open_web_hdfs  # for start-up time

        return open_web_hdfs(scheme, authority)
    if scheme == "s3":
        return _open_s3(authority, endpoint)
    if scheme == "gs":
        return _open_gs(endpoint)
    return _open_abfs(authority)


def _open_s3(bucket: str, endpoint: str | None) -> Any:
    from pyarrow import fs

    settings: dict[str, Any] = {"connect_timeout": CONNECT_S, "request_timeout": REQUEST_S}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        settings["endpoint_override"] = endpoint
    if region or endpoint:
        settings["region"] = region or "us-east-1"
    else:
        settings["region"] = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(**settings)


def _open_gs(endpoint: str | None) -> Any:
    """Google's store, with its own credentials; an emulator wants none."""
    from pyarrow import fs

    settings: dict[str, Any] = {"retry_time_limit": timedelta(seconds=REQUEST_S)}  # by default it tries for minutes
    if endpoint:
        place = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        settings |= {"anonymous": True, "scheme": place.scheme, "endpoint_override": place.netloc}
    return fs.GcsFileSystem(**settings)


def _open_abfs(authority: str) -> Any:
    """Azure's store, with a key from the environment if it is this account's, and else as `az login` left it."""
    from pyarrow import fs

    settings = azure_settings(authority, os.environ)
    if settings is None:
        return fs.FileSystem.from_uri(f"abfs://{authority}/")[0]
    return fs.AzureFileSystem(**settings)


def azure_settings(authority: str, environment: Mapping[str, str]) -> dict[str, str] | None:
    """What Arrow's client takes of the variables of Azure's own tools; None where they say nothing of this account."""
    account, _, suffix = authority.rpartition("@")[2].partition(".")
    pairs = (part.partition("=") for part in environment.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
    given = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if given.get("accountname") != account:
        given = {}
        if environment.get("AZURE_STORAGE_ACCOUNT") == account:
            given["accountkey"] = environment.get("AZURE_STORAGE_KEY", "")
            given["sharedaccesssignature"] = environment.get("AZURE_STORAGE_SAS_TOKEN", "")
    settings = {"account_name": account}
    if key := given.get("accountkey"):
        settings["account_key"] = key
    elif signature := given.get("sharedaccesssignature"):
        settings["sas_token"] = f"?{signature.removeprefix('?')}"
    else:
        return None
    if endpoint := given.get("blobendpoint"):
        place = urlsplit(endpoint)
        for kind in ("blob", "dfs"):  # an emulator, or a host of one's own, has both at one place
            settings[f"{kind}_storage_scheme"] = place.scheme
            settings[f"{kind}_storage_authority"] = place.netloc
    elif suffix:
        settings["dfs_storage_authority"] = f".{suffix}"
        settings["blob_storage_authority"] = f".blob{suffix.removeprefix('dfs')}"
    return settings
