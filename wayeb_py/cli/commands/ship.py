"""`wayeb ship`: the installed package becomes a zip for Spark's executors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.options import Quiet


@explained()
def write_archive(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="Where to write it.")] = Path("wayeb_py.zip"),
    machine_code: Annotated[
        bool, typer.Option(help="With the kernels as compiled here, for executors with the same processor.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Write this package as a zip for `spark-submit --py-files`."""
    from wayeb_py.parallel.spark.ship import write_zip

    path = write_zip(out, machine_code=machine_code)
    if not quiet:
        print(f"{path}, {path.stat().st_size / 1e6:.1f} MB: spark-submit --py-files {path} …")
