"""Broken files are explained: each tests/broken/NAME.sre gives exactly the messages of NAME.txt."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from wayeb_py import dsl
from wayeb_py.compiler.review.facts import review_facts
from wayeb_py.errors import LimitError, PatternError

BROKEN = Path(__file__).parents[1] / "broken"
FILES = sorted(BROKEN.glob("*.sre"))


def messages(path: Path) -> str:
    """Everything that a reader of the file is shown."""
    try:
        meaning = dsl.read(path)
    except (PatternError, LimitError) as error:
        return str(error)
    return "\n\n".join(found.render() for found in (*meaning.warnings, *review_facts(meaning)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_file_is_explained(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    assert messages(Path(path.name)) + "\n" == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_the_corpus_is_whole() -> None:
    assert len(FILES) >= 60
    assert {path.stem for path in BROKEN.glob("*.txt")} == {path.stem for path in FILES}


def test_errors_come_in_the_order_of_the_file() -> None:
    with pytest.raises(PatternError) as caught:
        dsl.read(BROKEN / "several_errors.sre")
    starts = [diagnostic.span.start for diagnostic in caught.value.diagnostics]
    assert starts == sorted(starts)
    assert len(starts) == 4


@pytest.mark.parametrize("name", ["several_errors", "too_deep"])
def test_errors_survive_pickling(name: str) -> None:
    with pytest.raises((PatternError, LimitError)) as caught:
        dsl.read(BROKEN / f"{name}.sre")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages_name_no_part_of_the_parser(path: Path) -> None:
    text = path.with_suffix(".txt").read_text(encoding="utf-8").lower()
    assert not [
        word for word in ("token", "expected end of text", "parseexception", "none type", "traceback") if word in text
    ]
