"""`python -m wayeb_py.cli`: the command without an installed script."""

from wayeb_py.cli import main

main()
