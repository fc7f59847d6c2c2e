"""The command `wayeb`: puts its commands together, and passes its arguments to them.

Messages go to standard error, results to standard output; `exit_codes` has what the process ends with. A start imports
the module of the command that it runs and no other: typer reads the parameters of all that it knows, which took as
long as checking a small file. The modules of the commands import nothing heavy: numpy, numba, pyarrow and Spark come
with the command that needs them, once it runs.
"""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from wayeb_py.cli.option_values import refusing_addresses
from wayeb_py.cli.plan_option import CommandWithPlan


class _Command(NamedTuple):
    """Where a command is: a module below `commands`, a function in it, and how typer should take it."""

    module: str
    function: str
    settings: dict[str, Any] = {}  # noqa: RUF012

    def add_to(self, group: typer.Typer, name: str) -> None:
        module = import_module(f"wayeb_py.cli.commands.{self.module}")
        group.command(name, **self.settings)(refusing_addresses(getattr(module, self.function)))


HANDED_OVER = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

# In the order in which `wayeb --help` lists them.
COMMANDS = {
    "check": _Command("check", "check_files"),
    "explain": _Command("explain", "show_automata", {"cls": CommandWithPlan}),
    "run": _Command("run", "run_patterns"),
    "test": _Command("test", "run_examples_of_files"),
    "fmt": _Command("fmt", "lay_out"),
    "convert": _Command("convert", "convert_prefix_form"),
    "bench": _Command("bench", "run_benchmarks", {"context_settings": HANDED_OVER}),
    "ship": _Command("ship", "write_archive"),
    "map": _Command("map", "draw_detections"),
    "why": _Command("why", "explain_detection"),
    "learn": _Command("forecasts.learn", "learn_models"),
    "forecast": _Command("forecasts.forecast", "forecast_patterns"),
    "stream": _Command("stream", "run_stream"),
    "replay": _Command("replay", "replay_events"),
}
COMMANDS_OF_DATA = {
    "convert": _Command("data_convert", "convert_files"),
    "describe": _Command("data_describe", "describe_files"),
    "generate": _Command("data_generate", "generate_events"),
}


def make_app(only: str | None = None) -> typer.Typer:
    """The command `wayeb` with all its commands, or with the one of this name alone."""
    app = typer.Typer(
        name="wayeb",
        help="Recognises patterns, written as symbolic regular expressions, in streams of moving things.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(common)
    for name, command in COMMANDS.items():
        if only in (None, name):
            command.add_to(app, name)
    if only is None or only not in COMMANDS:
        told = "Providers' files, made-up events, and what is in a file."
        data = typer.Typer(name="data", help=told, no_args_is_help=True)
        for name, command in COMMANDS_OF_DATA.items():
            command.add_to(data, name)
        app.add_typer(data)
    return app


def main() -> None:
    """The entry point of the command."""
    signal.signal(signal.SIGTERM, _end_in_order)
    gc.set_threshold(50_000)  # imports make many objects and no garbage: looking for it is a twentieth of a start
    words = sys.argv[1:]
    known = words[:1] and words[0] in (*COMMANDS, "data")
    make_app(words[0] if known else None)(args=spread_values(words))


def spread_values(words: list[str]) -> list[str]:
    """Lets `--data` take several paths, as a shell makes them of a glob: each gets a `--data` of its own.

    They end at the next option, or at a pattern file, which its extension shows. The names of a `--pattern` end at text
    that is no name, and the files of a `--places` at text without `=`.
    """
    belongs = {"--data": lambda word: not word.endswith(".sre"), "--places": lambda word: "=" in word}
    if words[:1] in (["run"], ["stream"], ["learn"], ["forecast"]):  # the other commands take one
        belongs["--pattern"] = str.isidentifier
    spread: list[str] = []
    option = ""  # the option whose values follow
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
    """Lets a terminated run clean up, as an interrupted one does."""
    raise SystemExit(128 + number)


def _show_version(wanted: bool) -> None:
    if wanted:
        from wayeb_py import __version__

        print(__version__)
        raise SystemExit(0)


def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """What all commands share."""
