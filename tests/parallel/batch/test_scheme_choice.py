"""The planner: facts and costs are data, and the choice follows from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from wayeb_py.files.read import EventReader, open_events
from wayeb_py.parallel.batch import scheme_choice
from wayeb_py.parallel.batch.plan import make_plan
from wayeb_py.parallel.batch.sample import sample_events
from wayeb_py.parallel.batch.scheme_choice import Costs, JobFacts, SchemeChoice, decide, settled
from wayeb_py.parallel.batch.splits import entity_splits
from wayeb_py.parallel.stream.plan import StreamPlan
from wayeb_py.parallel.wire.routing import route
from wayeb_py.patterns import Patterns, compile_patterns

FOLDER = JobFacts(
    n_patterns=6, n_files=48, n_events=20_000_000, n_workers=2, n_even_splits=2, promise=None, n_splits=48, fullest=0.5
)
CONVERTED = replace(FOLDER, promise="`wayeb data convert` partitioned it by entity")
CHEAP = Costs(read_s=100e-9, pack_s=30e-9, recognise_s=10e-9, pattern_s=(4e-9,) * 6, heaviest=0.001)
DEAR = replace(CHEAP, recognise_s=5e-6, pattern_s=(1e-6,) * 6)


def choose(facts: JobFacts, costs: Costs) -> SchemeChoice:
    return settled(facts) or decide(facts, costs)


def test_what_is_partitioned_by_entity_is_recognised_where_it_is_read() -> None:
    assert settled(CONVERTED) is not None
    assert choose(CONVERTED, CHEAP).scheme == "source"


def test_what_is_not_is_never_taken_as_if_it_were() -> None:
    for costs in (CHEAP, DEAR):
        assert "source" not in decide(FOLDER, costs).seconds


def test_files_in_no_order_are_partitioned_by_entity_on_many_workers() -> None:
    facts = replace(FOLDER, n_workers=16, n_even_splits=16)
    assert choose(facts, CHEAP).scheme == "partition"


def test_one_file_that_cannot_be_cut_is_read_by_all_workers_rather_than_awaited_by_all_but_one() -> None:
    facts = replace(FOLDER, n_files=1, n_even_splits=1)
    assert choose(facts, CHEAP).scheme == "pattern"


def test_a_single_worker_shuffles_nothing() -> None:
    facts = replace(FOLDER, n_workers=1, n_even_splits=1)
    assert choose(facts, CHEAP).scheme == "pattern"


def test_one_pattern_is_no_reason_to_read_everything_twice() -> None:
    facts = replace(FOLDER, n_patterns=1, n_workers=8, n_even_splits=8)
    assert choose(facts, replace(DEAR, pattern_s=(5e-6,))).scheme == "partition"


def test_a_lopsided_source_gives_way_to_a_shuffle() -> None:
    lopsided = replace(CONVERTED, n_workers=16, n_even_splits=16, fullest=0.9)
    assert settled(lopsided) is None
    assert choose(lopsided, DEAR).scheme == "partition"


def test_a_source_that_is_a_little_uneven_stays() -> None:
    assert choose(replace(CONVERTED, fullest=0.6), CHEAP).scheme == "source"


def test_patterns_are_split_for_a_heavy_entity_only_where_recognising_is_what_costs() -> None:
    facts = replace(FOLDER, n_workers=8, n_even_splits=8)
    assert decide(facts, replace(DEAR, heaviest=1 / 3)).most_groups == 6
    assert decide(facts, replace(CHEAP, heaviest=1 / 3)).most_groups == 1


def test_splitting_the_patterns_of_a_heavy_entity_ends_the_job_sooner() -> None:
    facts = replace(FOLDER, n_workers=8, n_even_splits=8)
    costs = replace(DEAR, heaviest=1 / 3)
    one_pattern = replace(facts, n_patterns=1), replace(costs, pattern_s=(sum(DEAR.pattern_s),))
    cannot_be_split = decide(*one_pattern).seconds["partition"]
    split = decide(facts, costs).seconds["partition"]
    without_it = decide(facts, replace(costs, heaviest=0.0)).seconds["partition"]
    assert split < 0.6 * cannot_be_split
    assert split < 1.5 * without_it


def test_an_entity_with_a_third_of_all_events_has_a_shard_of_its_own_that_starts_first() -> None:
    keys = pa.array([7] * 1000 + list(range(100, 2100)))
    routing, n_groups = route(keys, n_workers=4, n_groups=6)
    assert routing.heavy == (7,)
    assert n_groups == 2
    first = routing.targets[:2]
    assert {target.shard for target in first} == {routing.n_hashed}
    assert {target.group for target in first} == {0, 1}


def test_the_reason_is_one_line_with_what_it_rests_on() -> None:
    facts = replace(FOLDER, n_workers=16, n_even_splits=16)
    why = decide(facts, replace(CHEAP, heaviest=0.34)).why
    assert "\n" not in why
    for said in ("6 patterns", "48 files", "16 workers", "34% of the events", "% of that of pattern"):
        assert said in why


# Facts from real files.

TEXT = "stream s { key id  time t in s }\npattern a := (v > 1)\npattern b := (v > 2) ; (v < 1)\npattern c := (v > 1)\n"


@pytest.fixture
def patterns() -> Patterns:
    return compile_patterns(TEXT)


def write(path: Path, ids: list[int], row_group_size: int = 1000) -> None:
    table = pa.table({"id": ids, "t": list(range(len(ids))), "v": [float(i % 4) for i in range(len(ids))]})
    pq.write_table(table, path, row_group_size=row_group_size)


def read(patterns: Patterns, *paths: Path) -> EventReader:
    return open_events(paths, patterns.wanted)


def test_the_reason_compares_schemes_and_promises_no_seconds() -> None:
    choice = decide(replace(FOLDER, n_workers=16, n_even_splits=16), DEAR)
    share = choice.seconds[choice.scheme] / choice.seconds["pattern"]
    assert choice.why.endswith(f"; by a sample its work takes {share:.0%} of that of pattern")


def test_one_reader_recognises_and_two_recognise() -> None:
    assert str(StreamPlan("source", "as asked for", 1)).endswith(": 1 reader that recognises what it reads")
    assert str(StreamPlan("source", "as asked for", 2)).endswith(": 2 readers that recognise what they read")


def test_the_survey_counts_what_there_is_without_reading_it(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [1, 2] * 2000)
    write(tmp_path / "b.parquet", [2, 3] * 2000)
    reader = read(patterns, tmp_path)
    facts = scheme_choice.survey(patterns, reader, entity_splits(reader.files, "id"), n_workers=4)
    assert (facts.n_files, facts.n_events, facts.n_patterns) == (2, 8000, 2)
    assert (facts.n_even_splits, facts.promise) == (4, None)


def test_costs_are_measured_for_each_pattern_that_differs(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [1, 1, 2, 3] * 1000)
    costs = scheme_choice.measure(patterns, read(patterns, tmp_path))
    assert costs is not None
    assert len(costs.pattern_s) == 2
    assert min(costs.read_s, costs.pack_s, costs.recognise_s, *costs.pattern_s) > 0
    assert costs.heaviest == 0.5


def test_no_events_are_no_reason_to_fail(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [])
    plan = make_plan(patterns, read(patterns, tmp_path), "auto", 2)
    assert plan.scheme in ("source", "partition", "pattern")


def test_a_scheme_that_there_is_not_is_refused(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [1, 2])
    scheme: Any = "partitions"
    with pytest.raises(ValueError, match="no scheme is called `partitions`; there are auto, source"):
        make_plan(patterns, read(patterns, tmp_path), scheme, 2)


def test_nothing_known_of_costs_is_no_reason_to_do_all_in_one_task(tmp_path: Path, patterns: Patterns) -> None:
    lines = [f"{n % 7},{n},1" for n in range(9_000)]
    (tmp_path / "a.csv").write_text("\n".join(["id,t,v", *lines]) + "\n")
    wanted = patterns.wanted
    reader = open_events([tmp_path], wanted, since_s=Fraction(20_000))
    plan = make_plan(patterns, reader, "auto", 2)
    assert plan.scheme == "partition"
    assert "no event in a sample" in str(plan)


def test_a_sample_is_taken_from_the_time_that_is_asked_for(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [1, 2, 3] * 4_000, row_group_size=100)
    wanted = patterns.wanted
    reader = open_events([tmp_path / "a.parquet"], wanted, since_s=Fraction(4_130), until_s=Fraction(4_330))
    times = sample_events(reader).column("t").to_pylist()
    assert len(times) == 200
    assert (min(times), max(times)) == (4_130, 4_329)


def test_auto_sees_keys_that_lie_apart(tmp_path: Path, patterns: Patterns) -> None:
    write(tmp_path / "a.parquet", [1] * 4000)
    write(tmp_path / "b.parquet", [2] * 4000)
    plan = make_plan(patterns, read(patterns, tmp_path), "auto", 2)
    assert plan.scheme == "source"
    assert "do not overlap" in str(plan)
