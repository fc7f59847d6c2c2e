"""Arrays of a state are packed as `np.savez` packs them: `np.load` gives them back."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from wayeb_py.engine.saved import npz
from wayeb_py.engine.saved.npz import pack_npz
from wayeb_py.engine.saved.state_checks import read_arrays

ARRAYS = {
    "numbers": np.arange(7, dtype=np.int32),
    "every.other": np.arange(10.0)[::2],
    "turned": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "none": np.zeros((0, 3), dtype=np.uint8),
    "one": np.array(True),
    "größe": np.array(["a", "bc"]),
}


@pytest.mark.parametrize("most_bytes", [npz.MOST_BYTES, 0])  # the second leaves it to numpy
def test_arrays_come_back(most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "MOST_BYTES", most_bytes)
    data = pack_npz(ARRAYS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
    found = read_arrays(data)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(ValueError, match="object"):
        pack_npz({"x": np.array([{}], dtype=object)})
