"""A store for tests of checkpoints, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from wayeb_py.files import stores
from wayeb_py.files.stores import StorePath


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    """A bucket whose objects lie in a folder; it can do what Arrow's client of S3 can."""
    (tmp_path / "store" / "bucket").mkdir(parents=True)
    system = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())

    class Store:
        """Puts, gets, lists, copies, removes."""

        def __getattr__(self, name: str) -> Any:
            assert name != "move", "a store has no renames"
            return getattr(system, name)

        def open_output_stream(self, path: str, compression: str | None) -> Any:
            system.create_dir(path.rpartition("/")[0], recursive=True)
            return system.open_output_stream(path, compression=compression)

        def copy_file(self, source: str, target: str) -> None:
            system.create_dir(target.rpartition("/")[0], recursive=True)
            system.copy_file(source, target)

    monkeypatch.setattr(stores, "client_of", lambda root: Store())
    return StorePath.parse("s3://bucket/stream")
