"""The command behind `wayeb bench` and `make bench`: runs experiments, each in a process of its own; reports; compares.

python -m benchmarks [run] [NAME...] [--quick | --full]      python -m benchmarks list
python -m benchmarks report [--out FILE] [--records FOLDER]  python -m benchmarks compare A B
python -m benchmarks publish [NAME...]                       python -m benchmarks readme
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.experiments.catalogue import EXPERIMENTS
from benchmarks.harness.record import MISSING, RECORDS, newest_records

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None)
OF_PEERS = ("measures", "peers", "row_patterns")  # experiments that ask other engines, of which some can be chosen
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: within 3 minutes, without names.")]
Full = Annotated[bool, typer.Option("--full", help="The whole of what takes hours.")]
Records = Annotated[Path, typer.Option("--records", metavar="FOLDER", help="Where records are.")]


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Experiments; all without it.")] = None,
    quick: Quick = False,
    full: Full = False,
    only: Annotated[str, typer.Option("--only", metavar="A,B", help="Of the peers, only these.")] = "",
) -> None:
    """Run experiments; each checks its answers, and ends with a record and its figure."""
    size = "quick" if quick else "full" if full else "usual"
    known = {entry.name: entry for entry in EXPERIMENTS}
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        fail(f"no experiment is called {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in names] if names else [e for e in EXPERIMENTS if e.belongs_to(size)]
    if only and (len(chosen) != 1 or chosen[0].name not in OF_PEERS):
        fail(f"--only chooses among the peers of {', '.join(OF_PEERS)}: `wayeb bench peers --only duckdb,polars`")
    failed, not_run = [], []
    began = time.monotonic()
    for number, entry in enumerate(chosen):
        # Nothing is known about the full size: it is some ten times the usual one.
        expected_s = [one.seconds(size) or 10 * one.usual_s for one in chosen]
        spent_s = time.monotonic() - began
        # A machine that has been slower than expected so far will stay so.
        pace = max(1.0, spent_s / sum(expected_s[:number])) if number else 1.0
        left = f"{spent_s:.0f} s so far, about {pace * sum(expected_s[number:]):.0f} s left"
        print(f"==> [{number + 1}/{len(chosen)}] {entry.name}; {left}", flush=True)
        options = [] if size == "usual" else [f"--{size}"]
        options += ["--only", only] if only else []
        status = subprocess.run([sys.executable, "-m", entry.module, *options]).returncode
        if status == MISSING:
            not_run.append(entry.name)
        elif status:
            failed.append(entry.name)
    print(f"{time.monotonic() - began:.0f} s in all")
    if not_run:
        print(f"not run, for want of what they need: {', '.join(not_run)}")
    judged = "answers agree; bounds are judged at the usual size" if quick else "all bounds hold"
    print(f"failed, or not within bounds: {', '.join(failed)}" if failed else judged)
    raise SystemExit(1 if failed else 0)


@app.command("list")
def list_experiments() -> None:
    """The experiments, and how long each takes."""
    table = Table("experiment", "shows", "seconds", "quick", box=None)
    for entry in EXPERIMENTS:
        quick = "–" if entry.quick_s is None else f"{entry.quick_s}, by name" if entry.by_name else str(entry.quick_s)
        table.add_row(entry.name, entry.shows, str(entry.usual_s), quick)
    Console().print(table)


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html")] = Path("out/benchmarks.html"),
    records: Records = RECORDS,
) -> None:
    """One HTML page of the newest records: figures, tables, and how to repeat each."""
    from benchmarks.harness.report import write_report

    found = newest_records(records)
    if not found:
        fail(f"there are no records in {records}; `wayeb bench` makes some")
    order = {entry.name: number for number, entry in enumerate(EXPERIMENTS)}
    found.sort(key=lambda record: order.get(record.experiment, len(order)))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_report(found, records, out)
    print(f"{out}: {len(found)} experiments")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="A record, or a folder of records.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The same, later.")],
) -> None:
    """What became slower from A to B beyond the noise; ends with 1 if something did."""
    from benchmarks.harness.compare import compare as compare_records
    from benchmarks.harness.compare import doubts, load

    for path in (before, after):
        if not path.exists():
            fail(f"there is no {path}")
    records = load(before), load(after)
    for side, found in zip("AB", records, strict=True):
        for record in found.values():
            print(f"{side}  {record.experiment}: {record.date[:16]}, commit {record.commit}")
    for doubt in doubts(*records):
        print(doubt)
    changes = compare_records(*records)
    if not changes:
        fail("the two have no measurement in common (experiments are compared at the same size)")
    table = Table("experiment", "what", "before", "after", "after/before", "", box=None)
    for change in changes:
        numbers = f"{change.before:,.4g}", f"{change.after:,.4g}", f"{change.ratio:.3f}"
        table.add_row(change.experiment, change.what, *numbers, change.verdict)
    Console().print(table)
    slower = [change for change in changes if change.verdict == "slower"]
    print(f"{len(changes)} measurements, {len(slower)} slower beyond the noise")
    raise SystemExit(1 if slower else 0)


@app.command()
def publish(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="All that may be, without it.")] = None,
    disturbed: Annotated[bool, typer.Option("--disturbed", help="Disturbed ones too; not for README.")] = False,
    records: Records = RECORDS,
) -> None:
    """Copy the newest records of the usual size to benchmarks/published, and write README's numbers from there."""
    from benchmarks.harness.readme_table import RefusedError, left_out, write_readme
    from benchmarks.harness.readme_table import publish as publish_records

    try:
        for record in publish_records(names or [], disturbed, records):
            print(f"{record.experiment}: {record.date[:16]}, commit {record.commit}")
    except RefusedError as refused:
        fail(str(refused))
    for line in left_out():
        print(f"not in the record, and so not in README: {line}")
    write_readme()


@app.command()
def readme() -> None:
    """Write README's numbers from benchmarks/published."""
    from benchmarks.harness.readme_table import write_readme

    write_readme()


def fail(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    words = sys.argv[1:]
    # `python -m benchmarks` and `python -m benchmarks NAME --quick` run, as a user expects.
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    if not words or words[0] not in {*commands, "--help"}:
        words = ["run", *words]
    app(args=words)


if __name__ == "__main__":
    main()
