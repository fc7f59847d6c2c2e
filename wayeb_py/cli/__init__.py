"""The command line: `program` puts the commands together, `commands/` has one each, the rest is what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wayeb_py.cli.program import main

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Makes `app`, all commands together, for tools that inspect them; a start does not need it."""
    if name != "app":
        raise AttributeError(f"module 'wayeb_py.cli' has no attribute {name!r}")
    from wayeb_py.cli.program import make_app

    return make_app()
