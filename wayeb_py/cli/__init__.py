"""The command line: `app` puts the commands together, `commands/` has one file each, the rest is what they share."""

from wayeb_py.cli.app import app, main

__all__ = ["app", "main"]
