"""The next run removes what killed runs left behind, and nothing else."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from wayeb_py.files.output.leftovers import OLD_S, clear_files, scratch_folder
from wayeb_py.files.output.table_text import render_csv
from wayeb_py.files.output.whole_file import begin_whole

PATTERN = "stream s { key id time ts in s attr v number }\npattern P := (v > 0)\n"


def age(path: Path) -> None:
    """Makes a file too old to be about to be locked."""
    facts = path.stat()
    os.utime(path, (facts.st_atime - 2 * OLD_S, facts.st_mtime - 2 * OLD_S))


def killed_while(statement: str, folder: Path) -> None:
    """Runs a program until it reports that it is there, and kills it."""
    code = f"import sys, time\n{statement}\nprint('there', flush=True)\ntime.sleep(600)\n"
    program = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(folder)}
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"there\n"
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()


WRITING = (
    "from pathlib import Path\nfrom wayeb_py.files.output.whole_file import begin_whole\n"
    "whole = begin_whole(Path('found.csv'))\nwhole.write(b'half')"
)


def test_a_killed_run_s_file_goes_with_the_next_run(tmp_path: Path) -> None:
    killed_while(WRITING, tmp_path)
    (left,) = tmp_path.glob(".found.csv.*.tmp")
    (tmp_path / "p.sre").write_text(PATTERN)
    (tmp_path / "in.csv").write_text("id,ts,v\na,1,5\n")
    run = [sys.executable, "-m", "wayeb_py.cli", "run", "p.sre", "--data", "in.csv", "--out", "found.csv", "--quiet"]
    subprocess.run(run, cwd=tmp_path, check=True)
    assert left.exists(), "it is too young to be sure"
    age(left)
    subprocess.run(run, cwd=tmp_path, check=True)
    assert not left.exists()
    assert (tmp_path / "found.csv").exists()


def test_what_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    whole = begin_whole(tmp_path / "found.csv")
    whole.write(b"half")
    (unfinished,) = tmp_path.glob(".found.csv.*.tmp")
    age(unfinished)
    clear_files(tmp_path, ["found.csv"])
    assert unfinished.exists()
    whole.commit()
    assert (tmp_path / "found.csv").read_bytes() == b"half"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    "name",
    [".found.csv.tmp", ".found.csv.12-0011223.tmp", "found.csv.12-00112233.tmp", ".other.csv.12-00112233.tmp",
     ".foundxcsv.12-00112233.tmp", ".found.csv.12-00112233.tmp.mine", ".found.csv.12-0011223G.tmp"],
)  # fmt: skip
def test_names_that_are_not_ours_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    age(tmp_path / name)
    clear_files(tmp_path, ["found.csv"])
    assert (tmp_path / name).exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    age(target)
    link = tmp_path / ".found.csv.12-00112233.tmp"
    link.symlink_to(target)
    clear_files(tmp_path, ["found.csv"])
    assert target.exists()
    assert link.is_symlink()


def test_a_folder_for_sorting_goes_with_the_next_that_sorts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_while(
        "from wayeb_py.files.output.leftovers import scratch_folder\nheld = scratch_folder('wayeb-sort-')\n"
        "folder = held.__enter__()\n(folder / 'run-0').write_bytes(b'x' * 1000)",
        tmp_path,
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (left,) = tmp_path.glob("wayeb-sort-*")
    not_ours = tmp_path / "wayeb-sort-mine"
    not_ours.mkdir()
    age(left / ".owner")
    with scratch_folder("wayeb-sort-") as own:
        age(own / ".owner")
        with scratch_folder("wayeb-sort-"):
            assert own.exists(), "its owner lives"
    assert [path.name for path in tmp_path.glob("wayeb-sort-*")] == ["wayeb-sort-mine"]


# Formulas.

TABLE = pa.table(
    {
        "=name": ["=1+2", "+3", "-x", "@SUM(A1)", "\tx", "plain", "a=b", "", None, '=HYPERLINK("x","y")'],
        "n": [-1, 2, None, 4, 5, 6, 7, 8, 9, 10],
    }
)


def test_texts_that_are_formulas_are_marked_where_it_is_asked_for() -> None:
    safe = list(csv.reader(io.StringIO(render_csv(TABLE, with_header=True, safe=True).decode())))
    assert [row[0] for row in safe] == [
        "'=name", "'=1+2", "'+3", "'-x", "'@SUM(A1)", "'\tx", "plain", "a=b", "", "", '\'=HYPERLINK("x","y")',
    ]  # fmt: skip
    assert [row[1] for row in safe] == ["n", "-1", "2", "", "4", "5", "6", "7", "8", "9", "10"]
    exact = list(csv.reader(io.StringIO(render_csv(TABLE, with_header=True).decode())))
    assert [row[0] for row in exact] == ["=name", *(text or "" for text in TABLE["=name"].to_pylist())]


def test_the_option_reaches_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text(PATTERN)
    (tmp_path / "in.csv").write_text("id,ts,v\n=1+2,1,5\n")
    run = [sys.executable, "-m", "wayeb_py.cli", "run", "p.sre", "--data", "in.csv", "--quiet", "--out"]
    subprocess.run([*run, "exact.csv"], cwd=tmp_path, check=True)
    subprocess.run([*run, "safe.csv", "--csv-safe"], cwd=tmp_path, check=True)
    subprocess.run([*run, "exact.ndjson", "--csv-safe"], cwd=tmp_path, check=True)
    assert ",=1+2," in (tmp_path / "exact.csv").read_text()
    assert ",'=1+2," in (tmp_path / "safe.csv").read_text()
    assert '"entity": "=1+2"' in (tmp_path / "exact.ndjson").read_text()
