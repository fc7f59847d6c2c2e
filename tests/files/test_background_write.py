"""Writing behind the work is whole, in order, or not at all; its errors are reported."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.polling import poll
from wayeb_py.errors import DataError
from wayeb_py.files.output import background_write
from wayeb_py.files.output.background_write import WrittenBehind
from wayeb_py.files.output.write import ParquetOutput

PATIENCE_S = 20


def numbered(number: int) -> pa.Table:
    return pa.table({"seq": [number]})


def write_all(output: WrittenBehind, n_tables: int) -> None:
    for number in range(n_tables):
        output.write(numbered(number))
    output.commit()


class Recorded:
    """An output that waits to be let through, or fails at a table."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.written: list[int] = []
        self.calls: list[str] = []
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_writing = threading.Event()
        self.fails_at = fails_at

    def open(self) -> None:
        self.calls.append("open")

    def write(self, table: pa.Table) -> None:
        self.is_writing.set()
        assert self.may_write.wait(PATIENCE_S)
        number = table["seq"][0].as_py()
        if number == self.fails_at:
            raise DataError(f"table {number} cannot be written")
        self.written.append(number)

    def commit(self) -> None:
        self.calls.append("commit")

    def discard(self) -> None:
        self.calls.append("discard")


def test_tables_are_written_in_order_and_all_of_them_before_the_commit(tmp_path: Path) -> None:
    output = WrittenBehind(ParquetOutput(tmp_path / "d.parquet"))
    output.open()
    for number in range(50):
        output.write(numbered(number))
    assert not (tmp_path / "d.parquet").exists()
    output.commit()
    output.discard()
    assert pq.read_table(tmp_path / "d.parquet")["seq"].to_pylist() == list(range(50))
    assert [path.name for path in tmp_path.iterdir()] == ["d.parquet"]


def test_what_fails_is_told_at_the_next_write_or_at_the_commit_and_nothing_is_committed() -> None:
    recorded = Recorded(fails_at=1)
    output = WrittenBehind(recorded)
    output.open()
    with pytest.raises(DataError, match="table 1 cannot"):
        write_all(output, 1000)
    with pytest.raises(DataError, match="table 1 cannot"):
        output.commit()
    output.discard()
    assert recorded.written == [0]
    assert recorded.calls == ["open", "discard"]


def test_a_slow_disk_makes_the_work_wait() -> None:
    recorded = Recorded()
    recorded.may_write.clear()
    output = WrittenBehind(recorded)
    output.open()
    for number in range(background_write.WAITING):
        output.write(numbered(number))
    assert recorded.is_writing.wait(PATIENCE_S)
    output.write(numbered(background_write.WAITING))  # one is being written, and as many as may wait are waiting
    one_more = threading.Thread(target=output.write, args=[numbered(background_write.WAITING + 1)])
    one_more.start()
    assert output._waiting.full()
    assert one_more.is_alive()
    recorded.may_write.set()
    one_more.join(PATIENCE_S)
    output.commit()
    assert recorded.written == list(range(background_write.WAITING + 2))


def test_what_is_discarded_is_not_written_any_more() -> None:
    recorded = Recorded()
    recorded.may_write.clear()
    output = WrittenBehind(recorded)
    output.open()
    output.write(numbered(0))
    assert recorded.is_writing.wait(PATIENCE_S)
    output.write(numbered(1))
    discarding = threading.Thread(target=output.discard)
    discarding.start()
    poll(lambda: output._is_dropped, "what waits to be dropped", in_vain=lambda: not discarding.is_alive())
    recorded.may_write.set()
    discarding.join(PATIENCE_S)
    assert recorded.written == [0]
    assert recorded.calls == ["open", "discard"]
    assert not output._thread.is_alive()


def test_an_output_that_was_never_opened_can_be_discarded() -> None:
    recorded = Recorded()
    WrittenBehind(recorded).discard()
    assert recorded.calls == ["discard"]
