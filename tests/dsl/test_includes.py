"""Files and what they include are read together."""

from __future__ import annotations

from pathlib import Path

import pytest

from wayeb_py import dsl
from wayeb_py.errors import DataError, PatternError


def write(folder: Path, **files: str) -> Path:
    """Writes NAME.sre for each, and gives the path of the first."""
    paths = []
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.sre"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths[0]


def names(path: Path | list[Path], **how: bool) -> list[str]:
    return [pattern.name for pattern in dsl.read(path, **how).patterns]  # type: ignore[arg-type]


def refusal(path: Path) -> str:
    with pytest.raises(PatternError) as caught:
        dsl.read(path)
    return str(caught.value)


def test_an_include_takes_the_declarations_of_another_file(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main='include "parts/lets.sre"\npattern A := off ; twice',
        parts__lets='include "more.sre"\nlet off = k = "off"\npattern B := off',
        parts__more="let twice = (x > 1) ; (x > 2)",
    )
    assert names(main) == ["B", "A"]


def test_letters_of_an_included_let_stand_where_the_let_is_named(tmp_path: Path) -> None:
    main = write(tmp_path, main='include "lets.sre"\npattern A := twice', lets="let twice = (x > 1)+ ; !(x > 2)")
    regex = dsl.read(main).patterns[0].regex
    text = main.read_text()
    assert text[regex.span.start : regex.span.end] == "twice"
    assert {text[part.span.start : part.span.end] for part in regex.parts} == {"twice"}  # type: ignore[union-attr]


def test_a_file_is_read_once_however_often_it_is_included(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main='include "a.sre"\ninclude "b.sre"\ninclude "./a.sre"\npattern M := off',
        a='include "b.sre"\npattern A := off',
        b='let off = k = "off"',
    )
    assert names(main) == ["A", "M"]


def test_files_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    main = write(tmp_path, a='include "b.sre"\npattern A := (x > 1)', b='include "a.sre"\npattern B := (x > 2)')
    assert names(main) == ["B", "A"]


def test_several_files_are_one_set_of_patterns(tmp_path: Path) -> None:
    block = "stream s {\n    key id\n    time ts\n}\n"
    write(tmp_path, a=f"{block}pattern A := (x > 1)", b=f"{block}pattern B := (x > 2)")
    assert names([tmp_path / "a.sre", tmp_path / "b.sre"]) == ["A", "B"]


def test_files_that_are_read_together_agree_on_the_stream(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="stream s { key id time ts }\npattern A := (x > 1)",
        b="stream s { key no time ts }\npattern B := (x > 2)",
    )
    with pytest.raises(PatternError, match="the stream `s` is declared twice"):
        dsl.read([tmp_path / "a.sre", tmp_path / "b.sre"])


def test_a_missing_include_is_reported_where_it_is_asked_for(tmp_path: Path) -> None:
    main = write(tmp_path, main='pattern A := (x > 1)\ninclude "gone.sre"')
    assert "the included file cannot be found" in refusal(main)
    assert f"{main}:2:9" in refusal(main)


@pytest.mark.parametrize("path", ["../other.sre", "/etc/other.sre", "sub/../../other.sre"])
def test_an_include_stays_below_the_folder(tmp_path: Path, path: str) -> None:
    main = write(tmp_path, folder__main=f'include "{path}"\npattern A := (x > 1)', other='let off = k = "off"')
    assert "outside the folder" in refusal(main)


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    main = write(tmp_path, folder__main='include "link.sre"\npattern A := (x > 1)', other='let off = k = "off"')
    (main.parent / "link.sre").symlink_to(tmp_path / "other.sre")
    assert "outside the folder" in refusal(main)


def test_the_caller_may_allow_files_outside_the_folder(tmp_path: Path) -> None:
    main = write(tmp_path, folder__main='include "../other.sre"\npattern A := off', other='let off = k = "off"')
    assert names(main, outside=True) == ["A"]


def test_errors_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    main = write(tmp_path, main='include "a.sre"\npattern A := (x > "1" + 2)', a="let off == 3\nlet on = prev(1)")
    told = refusal(main)
    assert told.count("-->") == 3
    assert told.index("a.sre:1") < told.index("a.sre:2") < told.index("main.sre:2")


def test_a_file_in_the_older_form_is_recognised(tmp_path: Path) -> None:
    main = write(tmp_path, main='include "old.sre"\npattern A := (x > 1)', old=";(GT(x,1),GT(x,2))")
    assert names(main) == ["pattern_1", "A"]


def test_a_file_that_cannot_be_read_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        dsl.read(tmp_path / "gone.sre")
    (tmp_path / "latin.sre").write_bytes(b'let a = k = "\xe9"')
    with pytest.raises(DataError, match="UTF-8"):
        dsl.read(tmp_path / "latin.sre")


def test_an_include_that_is_not_text_is_reported_where_it_is_asked_for(tmp_path: Path) -> None:
    main = write(tmp_path, main='include "latin.sre"\npattern A := (x > 1)')
    (tmp_path / "latin.sre").write_bytes(b"\xff\xfe")
    assert "the included file cannot be read" in refusal(main)
