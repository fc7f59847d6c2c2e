"""The command `wayeb`: puts its commands together, and passes its arguments to them.

Messages go to standard error, results to standard output; `exit_codes` has what the process ends with. The modules of
the commands import nothing heavy: numpy, numba, pyarrow and Spark come with the command that needs them, once it runs.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

from wayeb_py.cli.commands import (
    bench,
    check,
    convert,
    data_convert,
    data_describe,
    data_generate,
    explain,
    fmt,
    map,
    replay,
    run,
    ship,
    stream,
    test,
    why,
)
from wayeb_py.cli.plan_command import CommandWithPlan

app = typer.Typer(
    name="wayeb",
    help="Recognises patterns, written as symbolic regular expressions, in streams of moving things.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data = typer.Typer(name="data", help="Providers' files, made-up events, and what is in a file.", no_args_is_help=True)

# In the order in which `wayeb --help` lists them.
app.command("check")(check.check_files)
app.command("explain", cls=CommandWithPlan)(explain.show_automata)
app.command("run")(run.run_patterns)
app.command("test")(test.run_examples_of_files)
app.command("fmt")(fmt.lay_out)
app.command("convert")(convert.convert_prefix_form)
app.command("bench", context_settings=bench.HANDED_OVER)(bench.run_benchmarks)
app.command("ship")(ship.write_archive)
app.command("map")(map.draw_detections)
app.command("why")(why.explain_detection)
app.command("stream")(stream.run_stream)
app.command("replay")(replay.replay_events)
data.command("convert")(data_convert.convert_files)
data.command("describe")(data_describe.describe_files)
data.command("generate")(data_generate.generate_events)
app.add_typer(data)


def main() -> None:
    """The entry point of the command."""
    signal.signal(signal.SIGTERM, _end_in_order)
    app(args=spread_values(sys.argv[1:]))


def spread_values(words: list[str]) -> list[str]:
    """Lets `--data` take several paths, as a shell makes them of a glob: each gets a `--data` of its own.

    They end at the next option, or at a pattern file, which its extension shows. The names of a `--pattern` end at text
    that is no name, and the files of a `--places` at text without `=`.
    """
    belongs = {"--data": lambda word: not word.endswith(".sre"), "--places": lambda word: "=" in word}
    if words[:1] in (["run"], ["stream"]):  # the other commands take one
        belongs["--pattern"] = str.isidentifier
    spread: list[str] = []
    option = ""  # whose values follow
    for before, word in zip(["", *words], words, strict=False):
        if word.startswith("-") and word != "-":
            option = word.partition("=")[0]
            option = option if option in belongs else ""
        elif option and before != option:
            if belongs[option](word):
                spread.append(option)
            else:
                option = ""
        spread.append(word)
    return spread


def _end_in_order(number: int, frame: object) -> NoReturn:
    """Lets a terminated run clean up after itself, as an interrupted one does."""
    raise SystemExit(128 + number)


def _show_version(wanted: bool) -> None:
    if wanted:
        from wayeb_py import __version__

        print(__version__)
        raise SystemExit(0)


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """What all commands share."""
