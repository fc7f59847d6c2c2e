"""The commands become a page of the documentation: every argument and option as `--help` prints it.

    python -m tools.commands_page            # writes docs/commands.md

The page is committed, so that it can be read beside the code; a test compares it with what this would write. A plugin
that makes it while the site is built was not taken: the repository's readers would not see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
HEAD = """# Commands

Every command with its arguments and options, as `wayeb COMMAND --help` tells them. [The command line](cli.md)
shows them at work. This page is made from the commands: `python -m tools.commands_page`.
"""


def render_commands() -> str:
    """The whole page."""
    from wayeb_py.cli import app

    command = typer.main.get_command(app)
    return "\n".join([HEAD, *_sections(command, "wayeb")])


def _sections(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        for word in sorted(inner):
            if not inner[word].hidden:
                yield from _sections(inner[word], f"{name} {word}")
        return
    yield f"## {name}\n"
    yield f"{_one_line(command.help or '')}\n"
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if parameters:
        yield "| | |\n| --- | --- |"
        yield from (_row(parameter) for parameter in parameters)
        yield ""


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        form = f"`{parameter.metavar or (parameter.name or '').upper()}`"
    else:
        names = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
        takes_value = not getattr(parameter, "is_flag", False)
        choices = getattr(parameter.type, "choices", None)
        value = parameter.metavar or ("|".join(map(str, choices)) if choices else "")
        form = f"{names} `{value}`" if takes_value and value else names
    told = [_one_line(getattr(parameter, "help", None) or "")]
    default = parameter.default
    if parameter.required and parameter.param_type_name != "argument":
        told.append("Required.")
    elif isinstance(default, str | int | float) and not isinstance(default, bool) and str(default):
        told.append(f"Default: `{getattr(default, 'value', default)}`.")
    return f"| {form.replace('|', chr(92) + '|')} | {' '.join(part for part in told if part)} |"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render_commands() + "\n", encoding="utf-8")
