"""Asks other engines for the matches of row patterns: the corpus's cases, in their own languages, have the same rows.

    wayeb bench row_patterns [--only trino,flink]

It is about answers, not speed. Each case of tests/corpus/peers.toml has queries for the engines that can say it; each
engine runs its queries over the events of the case, and its rows are those that the case expects of ours (the tests
hold ours to them). A query that a case lacks is one that the engine cannot say, or that another has said already.
"""

from __future__ import annotations

import argparse

from benchmarks.harness.measure import Bound, Experiment, start
from benchmarks.peers.peer import MissingError
from benchmarks.peers.row_patterns.cases import ENGINES, PeerCase, RowPatternEngine, ask, difference, peer_cases


def run(experiment: Experiment, engine: RowPatternEngine, cases: list[PeerCase]) -> None:
    """A line for what an engine answered, and one for each case in which it is not what is expected."""
    asked = [case for case in cases if engine.name in case.queries]
    try:
        found = ask(engine, asked)
    except MissingError as fault:
        experiment.row(engine=engine.title, said=f"missing: {fault}")
        return
    n_other = 0
    for case in asked:
        rows = found[case.name]
        other = rows if isinstance(rows, str) else difference(case.rows, rows)
        if other is not None:
            n_other += 1
            experiment.row(engine=engine.title, version=engine.version, case=case.name, said=other)
    n_rows = sum(len(case.rows) for case in asked)
    equal = len(asked) - n_other
    experiment.row(engine=engine.title, version=engine.version, cases=len(asked), equal=equal, rows=n_rows)
    bound = Bound(
        f"{engine.title} {engine.version}: cases of {len(asked)} answered otherwise", n_other, 0, "at most", ""
    )
    experiment.bound(bound, at_every_size=True)


def main() -> None:
    names = [engine.name for engine in ENGINES]
    parser = argparse.ArgumentParser(prog="wayeb bench row_patterns")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help=f"some of {', '.join(names)}, with commas")
    only = [name for name in parser.parse_args().only.split(",") if name]
    if set(only) - set(names):
        parser.error(f"there are {', '.join(names)}")
    experiment = start("row_patterns", "typical row patterns, asked of the engines that have them")
    cases = peer_cases()
    for number, engine in enumerate(ENGINES):
        if not only or engine.name in only:
            experiment.progress.step(number + 1, len(ENGINES), f"{engine.title}, engine")
            run(experiment, engine, cases)
    experiment.finish()


if __name__ == "__main__":
    main()
