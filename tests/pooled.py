"""Many small cases become few large jobs: entities of one table, patterns of one file, each with its case's name.

Starting a job of Spark's takes longer than any case. Cases are put together where one stream block serves them and key,
time and the columns that the block names have one type; other columns and `let`s get names of their own. A case's own
patterns then answer it, in its own entities; what the patterns find elsewhere does not matter.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from tests.cases import KEY, TIME
from tests.engines import Job, detections_of, episodes_of
from tests.oracle import Answer, Cell, Detection, Episode

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|//[^\n]*|\b[A-Za-z_]\w*\b')


@dataclass
class PooledCase:
    """A case in a pool: its prefix, and what the oracle says."""

    name: str
    prefix: str
    answer: Answer


@dataclass
class Pool:
    """One file of patterns and one table of events for several cases."""

    head: str
    longest: bool
    arrival: bool
    texts: list[str] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    cases: list[PooledCase] = field(default_factory=list)

    def compile(self) -> wayeb_py.Patterns:
        text = self.head + "\n".join(self.texts)
        # A case without a lateness that is taken as it arrives has one of 0: in files it has to be written.
        lateness_s = 0 if self.arrival and "lateness" not in self.head else None
        return wayeb_py.compile(text, longest=self.longest, lateness_s=lateness_s)

    def every(self, step: int, first: int) -> Pool:
        """The pool of every `step`-th case."""
        taken = slice(first, None, step)
        return replace(self, texts=self.texts[taken], tables=self.tables[taken], cases=self.cases[taken])

    def table(self) -> pa.Table:
        return pa.concat_tables(self.tables, promote_options="default")

    def interleaved(self, dice: random.Random) -> pa.Table:
        """The events with the cases mixed, each case's in their own order."""
        table = self.table()
        turns = [number for number, part in enumerate(self.tables) for _ in range(part.num_rows)]
        dice.shuffle(turns)
        starts = [sum(part.num_rows for part in self.tables[:number]) for number in range(len(self.tables))]
        batches = []
        for number in turns:
            batches.append(table.slice(starts[number], 1))
            starts[number] += 1
        return pa.concat_tables([table.slice(0, 0), *batches])

    def check(self, tables: Iterable[pa.Table], patterns: wayeb_py.Patterns, episodes: bool) -> None:
        """What was found is, case by case, what the oracle says."""
        found: list[Detection] | list[Episode]
        found = episodes_of(tables, patterns) if episodes else detections_of(tables, patterns)
        alone = len(self.cases) == 1
        for case in self.cases:
            own = [
                replace(row, pattern=row.pattern.removeprefix(case.prefix), entity=_stripped(row.entity, case.prefix))
                for row in found
                if row.pattern.startswith(case.prefix) and (alone or str(row.entity).startswith(case.prefix))
            ]
            expected = case.answer.episodes if episodes else case.answer.detections
            assert sorted(own, key=repr) == sorted(expected, key=repr), case.name


def _stripped(entity: Cell, prefix: str) -> Cell:
    return entity.removeprefix(prefix) if isinstance(entity, str) else entity


def pool(jobs: Iterable[tuple[str, Job, Answer]]) -> list[Pool]:
    """The jobs in as few pools as can be."""
    pools: dict[object, Pool] = {}
    for number, (name, job, answer) in enumerate(jobs):
        prefix = f"c{number}_"
        end = job.source.index("}\n") + 2
        head, text = job.source[:end], job.source[end:]
        schema = job.table.schema
        fixed = {KEY, TIME} | {
            column for column in schema.names if re.search(rf"\b{column}\b", head[head.index("{") :])
        }
        is_text = pa.types.is_string(schema.field(KEY).type)
        types = tuple((column, str(schema.field(column).type)) for column in sorted(fixed))
        one = (head, job.longest, job.arrival, types, None if is_text else name)
        own = pools.setdefault(one, Pool(head, job.longest, job.arrival))
        renamed = {column: column if column in fixed else _typed(column, schema) for column in schema.names}
        words = {column: new for column, new in renamed.items() if column != new}
        words |= {let: prefix + let for let in re.findall(r"^let (\w+)", text, re.MULTILINE)}
        words |= {called: prefix + called for called in re.findall(r"^pattern (\w+)", text, re.MULTILINE)}
        own.texts.append(_with_words(text, words))
        table = job.table.rename_columns([renamed[column] for column in schema.names])
        if is_text:
            keys = [None if key is None else prefix + key for key in table[KEY].to_pylist()]
            table = table.set_column(table.schema.get_field_index(KEY), KEY, pa.array(keys, pa.string()))
        own.tables.append(table)
        own.cases.append(PooledCase(name, prefix, answer))
    return list(pools.values())


def _with_words(text: str, words: dict[str, str]) -> str:
    """The text with other names; one that is written in backticks is a keyword where it is not."""

    def other(found: re.Match[str]) -> str:
        word = found[0]
        if word.startswith("`"):
            return f"`{words.get(word[1:-1], word[1:-1])}`"
        return word if f"`{word}`" in text else words.get(word, word)

    return _WORD.sub(other, text)


def _typed(column: str, schema: pa.Schema) -> str:
    return f"{column}_{re.sub(r'[^a-z0-9]+', '_', str(schema.field(column).type).lower())}_"


def write(table: pa.Table, folder: Path, name: str, group_rows: int = 1 << 20) -> Path:
    """The table as Parquet, or as Arrow's own format where Parquet has not all of its types."""
    path = folder / f"{name}.parquet"
    try:
        pq.write_table(table, path, row_group_size=group_rows)
        if pq.read_schema(path).types == table.schema.types:
            return path
    except pa.ArrowNotImplementedError:
        pass
    path.unlink(missing_ok=True)
    path = folder / f"{name}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=group_rows)
    return path
