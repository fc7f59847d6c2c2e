"""The state of rules becomes bytes and comes back: rows, tuples, what stands, what is held, and how far patterns are.

It saves networks node by node, each under a digest of what the node does. So a user can add, remove or change rules
between two runs, and the unchanged ones continue. A rule starts empty where it reads columns that were not saved,
or where a file of facts that it reads has changed. Kept rules continue all together or not at all; where they start
empty, they report all matches of the facts that stand. Where they continue and a file has changed, the rows that it
has lost and gained end and begin facts.

Texts are codes in all that is kept. Those that no row has any more are left out, and the others get new codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.engine.rules.bound_rules import Running
from wayeb_py.engine.rules.fact_rules import Begun
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.standing_rows import Renumbered
from wayeb_py.engine.saved.packing import arrays_of, ipc, pack_arrays, read_ipc, unpack_state
from wayeb_py.engine.saved.state_checks import misfit, telling_misfits
from wayeb_py.errors import DataError
from wayeb_py.rules.network import below
from wayeb_py.rules.table import I64, MISSING, Array

VERSION = 1  # version of the state of rules; it includes the names of nodes, tables and conditions
_TIME, _HELD, _ARRAY = "t:", "h:", "a:"  # prefix of the names of a batch's columns


def save(
    running: Running, words: list[str], streams: Mapping[str, bytes], pair_places: Mapping[str, list[Any]]
) -> bytes:
    """The state of rules; `streams` are the states of the rows of streams, `pair_places` those of episodes of pairs."""
    arrays: dict[str, Array] = {}
    texts: list[str] = []  # arrays of codes
    for name, network in _networks(running).items():
        arrays |= {f"{name}|{part}": values for part, values in network.save().items()}
        for table, layout in (running.kept if name == "kept" else running.in_time).layouts.items():
            texts += [f"{name}|table/{table}/{column}" for column in layout.asked if layout.is_text(column)]
    arrays |= {f"newest|{name}": newest.row for name, newest in running.newest.items()}
    for name, changed in running.changed.items():
        arrays |= {f"changed|{name}|{part}": values for part, values in changed.save().items()}
        types = running.types_of_changing(name)
        for nth, column in enumerate(changed.columns):
            if types[column].kind == "text":
                part = f"changed|{name}|values"
                arrays[f"{part}|{nth}"] = arrays[part][:, nth]
                texts.append(f"{part}|{nth}")
    words = _in_use(arrays, texts, words)
    for name in [name for name in arrays if name.startswith("changed|") and name.count("|") > 2]:
        part, _, column_number = name.rpartition("|")
        arrays[part] = arrays[part].copy()
        arrays[part][:, int(column_number)] = arrays.pop(name)
    for rule, begun in running.kept.begun.items():
        arrays[f"begun|{rule}"] = begun.pairs()
    arrays |= {f"stood|{table}": one.stood for table, one in running.renumbered.items()}
    blobs = {f"stream|{name}": data for name, data in streams.items()}
    blobs["words"] = ipc(pa.record_batch({"word": pa.array(words, pa.string())}))
    for table, batch in running.files.items():
        if table in running.kept.layouts:
            blobs[f"file|{table}"] = ipc(pa.record_batch(dict(batch.arrays)))
            arrays[f"file|{table}"] = running.file_ids[table]
    for table, batches in running.held.items():
        blobs |= {f"held|{table}|{nth}": ipc(_packed(batch)) for nth, batch in enumerate(batches)}
    has_times = bool(running.in_time.network.clocks or running.held)
    header = {
        "version": VERSION,
        "ticks_per_s": running.ticks_per_s if has_times else None,  # while nothing has happened, any unit fits
        "has_begun": running.has_begun,
        "n_standing": running.n_standing,
        "renumbered": {table: one.n_before for table, one in running.renumbered.items()},
        "pair_places": dict(pair_places),
        "plans": {**running.in_time.trees, **running.kept.trees},
        "files": digests(running),
    }
    return pack_arrays(header, arrays, blobs)


def _in_use(arrays: dict[str, Array], texts: list[str], words: list[str]) -> list[str]:
    """The words that arrays of codes have, which become codes among these."""
    codes = [np.empty(0, dtype=np.int64), *(arrays[name] for name in texts)]
    used = np.unique(np.concatenate(codes))
    used = used[used != MISSING]
    for name in texts:
        values = arrays[name]
        arrays[name] = np.where(values == MISSING, MISSING, np.searchsorted(used, values))
    return [words[code] for code in used.tolist()]


def digests(running: Running) -> dict[str, str]:
    """A digest of the content of each file of facts."""
    found = {}
    for table, batch in running.files.items():
        digest = hashlib.sha256()
        for name, array in sorted(batch.arrays.items()):
            digest.update(name.encode())
            digest.update(ipc(pa.record_batch({name: array})))
        found[table] = digest.hexdigest()[:32]
    return found


class SavedRules:
    """A saved state, unpacked: the parts that are needed before rules are bound, and the parts after."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._header, self._blobs = unpack_state(data)
        version = self._header.get("version", 0)
        if version != VERSION:
            raise DataError(
                f"the saved state of the rules has version {version}, and this release reads {VERSION}",
                hint="go on with the release that wrote it, or remove it to start afresh",
            )
        with telling_misfits():
            self.words: list[str] = read_ipc(self._blobs["words"]).column("word").to_pylist()
            self.plans: dict[str, str] = self._header["plans"]
            self.pair_places: dict[str, list[Any]] = self._header["pair_places"]
            self.streams = below(self._blobs, "stream|")

    def restore(self, running: Running) -> None:
        """Loads the saved state into fresh rules that are bound to the types of their rows."""
        with telling_misfits():
            if self._header["ticks_per_s"] not in (None, running.ticks_per_s):
                raise misfit("the unit of its times is another")
            arrays = arrays_of(self._blobs)
            files = digests(running)
            changed = [table for table, digest in files.items() if self._header["files"].get(table) != digest]
            begun = bool(self._header["has_begun"])
            for name, newest in running.newest.items():
                newest.row = arrays.get(f"newest|{name}", newest.row)
            for name, facts in running.changed.items():
                own = below(arrays, f"changed|{name}|")
                if own:
                    facts.restore(own)
            saved = {name: below(arrays, f"{name}|") for name in _networks(running)}
            kept = running.kept
            goes_on = begun and kept.network.knows_all(saved["kept"])
            if goes_on:
                kept.network.restore(saved["kept"])
                for table in files:
                    if table in kept.layouts:
                        self._compare_file(running, table, arrays[f"file|{table}"], is_same=table not in changed)
                for rule in kept.begun:
                    pairs = arrays.get(f"begun|{rule}", np.empty((0, 2), dtype=np.int64))
                    kept.begun[rule] = Begun(*np.ascontiguousarray(pairs[np.argsort(pairs[:, 0])].T))
                running.n_standing = dict(self._header["n_standing"])
                for table, n_before in self._header["renumbered"].items():
                    running.renumbered[table] = Renumbered(arrays[f"stood|{table}"], n_before)
            else:
                changed += [table for table in running.in_time.layouts if table.startswith("kept ")]
            running.kept_goes_on = goes_on
            if begun:
                running.afresh &= running.in_time.network.restore(saved["in time"], changed)
            is_to_begin = bool(running.afresh & running.in_time.layouts.keys() or running.replaced)
            running.has_begun = goes_on and not is_to_begin
            for name, blob in below(self._blobs, "held|").items():
                running.held.setdefault(name.rpartition("|")[0], []).append(_unpacked(read_ipc(blob)))


    def _compare_file(self, running: Running, table: str, ids: I64, *, is_same: bool) -> None:
        """Notes what a file of facts has lost and gained; `ids` are the numbers of arrival of the rows that it had."""
        if is_same:
            running.file_ids[table] = ids
            return
        batch = running.files[table]
        before, now = (
            list(zip(*(array.to_pylist() for array in arrays), strict=True))
            for arrays in (
                [read_ipc(self._blobs[f"file|{table}"]).column(name) for name in batch.arrays],
                list(batch.arrays.values()),
            )
        )
        known = dict(zip(before, ids.tolist(), strict=True))
        n_arrived = running.kept.network.tables[table].n_arrived
        coming = [row for row, fact in enumerate(now) if fact not in known]
        for nth, row in enumerate(coming):
            known[now[row]] = n_arrived + nth
        going = set(before) - set(now)
        running.file_ids[table] = np.array([known[fact] for fact in now], dtype=np.int64)
        gone = np.array(sorted(known[fact] for fact in going), dtype=np.int64)
        running.replaced[table] = batch.take(np.array(coming, dtype=np.int64)), gone


def _networks(running: Running) -> dict[str, Any]:
    return {"in time": running.in_time.network, "kept": running.kept.network}


def _packed(batch: RowBatch) -> pa.RecordBatch:
    columns: dict[str, Any] = {_TIME + name: pa.array(values) for name, values in batch.times.items()}
    columns |= {_HELD + name: pa.array(values) for name, values in batch.held.items()}
    columns |= {_ARRAY + name: array for name, array in batch.arrays.items()}
    return pa.record_batch(columns)


def _unpacked(batch: pa.RecordBatch) -> RowBatch:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times, held = (
        {name: array.to_numpy() for name, array in below(columns, prefix).items()} for prefix in (_TIME, _HELD)
    )
    return RowBatch(batch.num_rows, times, below(columns, _ARRAY), held)
