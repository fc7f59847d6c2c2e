"""Folders on the command line: which pattern files they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from wayeb_py.cli.pattern_files import find_files, find_whole_files
from wayeb_py.errors import DataError

PATTERN = "pattern Fast := (speed > 50)\n"


def lay_out(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.sre").write_text(text)


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_a_file_that_another_includes_is_read_with_that_one(tmp_path: Path) -> None:
    lay_out(tmp_path, stream="stream v {\n}\n", a='include "stream.sre"\n' + PATTERN, b=PATTERN)
    assert names(find_whole_files([tmp_path])) == ["a", "b"]
    assert names(find_files([tmp_path])) == ["a", "b", "stream"]


def test_a_named_file_is_meant_even_if_another_includes_it(tmp_path: Path) -> None:
    lay_out(tmp_path, part=PATTERN, whole='include "part.sre"\n')
    assert names(find_whole_files([tmp_path / "part.sre", tmp_path])) == ["part", "whole"]


def test_files_that_include_each_other_are_all_meant(tmp_path: Path) -> None:
    lay_out(tmp_path, a='include "b.sre"\n', b='include "a.sre"\n')
    assert names(find_whole_files([tmp_path])) == ["a", "b"]


def test_a_file_that_includes_itself_or_cannot_be_read_stays(tmp_path: Path) -> None:
    lay_out(tmp_path, a='include "a.sre"\n' + PATTERN)
    (tmp_path / "b.sre").write_bytes(b"\xff")
    assert names(find_whole_files([tmp_path])) == ["a", "b"]


def test_a_folder_without_pattern_files_is_pointed_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.sre files"):
        find_files([tmp_path])
