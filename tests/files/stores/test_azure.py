"""Azure's store: settings as Azure's own tools take them, and uploads that no reader sees before they are complete.

The long tests run over Microsoft's emulator Azurite, on loopback, which npm fetches:
`pytest -m soak tests/files/stores`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyarrow import fs

from tools.azure_server import ACCOUNT, AzureServer
from wayeb_py.errors import DataError
from wayeb_py.files import stores
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.store_clients import azure_settings
from wayeb_py.files.stores import StorePath

HOST = "c@fleet.dfs.core.windows.net"
HOSTS = {"dfs_storage_authority": ".dfs.core.windows.net", "blob_storage_authority": ".blob.core.windows.net"}
HERE = {
    "blob_storage_scheme": "http", "blob_storage_authority": "127.0.0.1:10000",
    "dfs_storage_scheme": "http", "dfs_storage_authority": "127.0.0.1:10000",
}  # fmt: skip
KEY = {"account_name": "fleet", "account_key": "a2V5=="}


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({}, None),
        ({"AZURE_STORAGE_ACCOUNT": "fleet"}, None),
        ({"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": "a2V5=="}, None),
        ({"AZURE_STORAGE_ACCOUNT": "fleet", "AZURE_STORAGE_KEY": "a2V5=="}, KEY | HOSTS),
        (
            {"AZURE_STORAGE_ACCOUNT": "fleet", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=x%3D"},
            {"account_name": "fleet", "sas_token": "?sv=1&sig=x%3D"} | HOSTS,
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=fleet;AccountKey=a2V5=="},
            KEY | HOSTS,
        ),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": "AccountName=fleet;AccountKey=a2V5==;"
                "BlobEndpoint=http://127.0.0.1:10000/fleet"
            },
            KEY | HERE,
        ),
        ({"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=a2V5=="}, None),
    ],
)
def test_a_key_is_used_for_its_own_account_alone(variables: dict[str, str], settings: dict[str, str] | None) -> None:
    assert azure_settings(HOST, variables) == settings


def test_another_cloud_has_other_hosts() -> None:
    settings = azure_settings(
        "c@fleet.dfs.core.chinacloudapi.cn", {"AZURE_STORAGE_ACCOUNT": "fleet", "AZURE_STORAGE_KEY": "k"}
    )
    assert settings is not None
    assert settings["blob_storage_authority"] == ".blob.core.chinacloudapi.cn"


def test_an_upload_has_another_name_until_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a folder of this machine behind Arrow's interface: an object is there from its first byte on."""
    (tmp_path / "c").mkdir()
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(stores, "client_of", lambda root: system)
    root = StorePath.parse(f"abfs://{HOST}")
    write_whole(root / "x.csv", b"old")

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert (root / "x.csv").read_bytes() == b"old"
            assert [path.name for path, _ in root.below()] == ["x.csv"]
            assert len([*(tmp_path / "c").iterdir()]) == 2
            return super().read(size)

    (root / "x.csv").upload(Watched(b"new"))
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["x.csv"]
    assert (root / "x.csv").read_bytes() == b"new"


@pytest.mark.soak
def test_a_wrong_key_and_a_container_that_is_not_there(
    azure_server: AzureServer, container: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="there is no bucket"):
        write_whole(StorePath.parse(f"abfs://none@{ACCOUNT}.dfs.core.windows.net/x.csv"), b"x")
    wrong = "d3Jvbmc="
    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value.replace(azure_server.key, wrong))
    with pytest.raises(DataError, match="the store refuses access") as caught:
        (container / "x.csv").read_bytes()
    assert wrong not in str(caught.value)
