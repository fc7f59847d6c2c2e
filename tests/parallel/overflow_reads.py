"""Notes what the driver reads of results that were too large for Spark."""

from __future__ import annotations

import pytest

from wayeb_py.parallel.wire.overflow import Overflow, OverflowLocation


def note_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the parcels that are read from files from here on, in bytes."""
    sizes: list[int] = []
    whole = Overflow.read

    def noted(self: Overflow, place: OverflowLocation) -> bytes:
        sizes.append(place.n_bytes)
        return whole(self, place)

    monkeypatch.setattr(Overflow, "read", noted)
    return sizes
