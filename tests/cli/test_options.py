"""Options that several commands take come from one definition, and a group of them behaves as each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from wayeb_py import cli
from wayeb_py import compile as compile_patterns
from wayeb_py.cli.event_files import read_named
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_shed

COMPILING = ("check", "explain", "run", "test", "map", "why", "stream")


def options_of(command: str) -> dict[str, Any]:
    group: Any = typer.main.get_command(cli.app)
    return {parameter.name: parameter for parameter in group.commands[command].params}


@pytest.mark.parametrize("option", ["key", "time", "time_unit", "functions", "outside", "places"])
def test_commands_that_compile_patterns_take_the_same_options(option: str) -> None:
    told = {
        command: (options[option].opts, options[option].metavar, options[option].help)
        for command in COMPILING
        if option in (options := options_of(command))
    }
    without = set(COMPILING) - set(told)
    assert without == ({"test"} if option == "places" else set())
    assert len({repr(one) for one in told.values()}) == 1


def test_a_group_stands_among_the_other_options_and_arrives_whole() -> None:
    arrived: list[Any] = []

    @dataclass
    class Size:
        """A group of two options."""

        width: Annotated[int, typer.Option(help="How wide.")] = 3
        height: Annotated[int, typer.Option("--tall", help="How high.")] = 4

    def draw(name: str, size: Any, *, loud: bool = False) -> None:
        """Draws."""
        arrived.append((name, size, loud))

    draw.__annotations__["size"] = Size
    app = typer.Typer()
    app.command()(grouped(draw))
    assert CliRunner().invoke(app, ["box", "--tall", "7", "--loud"]).exit_code == 0
    assert CliRunner().invoke(app, ["box"]).exit_code == 0
    assert arrived == [("box", Size(3, 7), True), ("box", Size(3, 4), False)]
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--width") < shown.index("--tall") < shown.index("--loud")


def test_functions_run_once_for_all_pattern_files(tmp_path: Path) -> None:
    """The Python file of `--functions` may have effects: `check` over two files loads it once."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.sre").write_text(
            "stream s {\n    key k\n    time t in s\n    attr v number\n}\npattern P := (odd(v))\n"
        )
    (tmp_path / "own.py").write_text(
        f"import wayeb_py\nwith open({str(tmp_path / 'log')!r}, 'a') as log:\n    log.write('loaded ')\n"
        '@wayeb_py.predicate("number")\ndef odd(v):\n    return v % 2 == 1\n'
    )
    ended = CliRunner().invoke(cli.app, ["check", str(tmp_path), "--functions", str(tmp_path / "own.py")])
    assert ended.exit_code == 0, ended.output
    assert (tmp_path / "log").read_text() == "loaded "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("low=0s", "--shed: `low` after nothing would skip every event: give a time, as in low=500ms"),
        ("low=200ms,low=1s", "--shed: `low` comes twice: give each level once, as in low=500ms,normal=5s"),
        (
            "low=11574075d",
            "--shed: `11574075d` is too long; a duration is less than 1,000,000,000,000 s, some 30,000 years",
        ),
        ("lowest=1s", "--shed: `lowest` is no level: high, normal, low, as in low=500ms,normal=5s"),
    ],
)
def test_a_level_sheds_after_one_time_that_is_not_nothing(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        read_shed(text)
    assert raised.value.code == 2
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize("source", ["tcp://127.0.0.1:5000", "nmea+udp://127.0.0.1:10110", "-"])
def test_the_source_of_the_only_stream_needs_no_name(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    patterns = compile_patterns("stream ais { key id time t }\npattern A := (x > 1)\n")
    for text in (source, "folder", "part=3/", "tcp://127.0.0.1:5000?format=csv"):
        assert list(read_named(patterns, [text], "--source", "SOURCE").values()) == [[text]]
    with pytest.raises(SystemExit) as raised:
        read_named(patterns, [f"radar={source}"], "--source", "SOURCE")
    assert raised.value.code == 2
    message = f"no stream is called `radar`; the file has one stream, `ais`: write --source {source}"
    assert capsys.readouterr().err == f"--source radar={source}: {message}\n"
