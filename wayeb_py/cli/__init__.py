"""The command `wayeb`: one file a command, or a few that belong together."""

from wayeb_py.cli.commands import app, main

__all__ = ["app", "main"]
