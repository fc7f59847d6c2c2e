"""`python -m wayeb_py` is the command `wayeb`: for a Python whose scripts are not on the path."""

from wayeb_py.cli import main

if __name__ == "__main__":
    main()
