"""The documentation shows what happens: its examples run, and their output is compared.

Fenced blocks in README.md and docs/ are read by their language:

- `console`: each line after `$ ` runs in a folder with `patterns/` and `data/`, a page from top to bottom; the text
  below must be the output, where `…` stands for anything within a line and a line of `…` for any lines. A command that
  ends in `<<'END'` takes the lines up to `END` as its input.
- `pycon`: a doctest; the blocks of a page share their names.
- `sre`: a file that the checker takes without an error.

Other languages (`sh`, `text`, `python`) are not run.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import pytest

import wayeb_py
from tests.docs.test_prose import NOT_PROSE, NOT_WORDS, lines_of_prose
from tools import tree_page
from tools.commands_page import PAGE, render_commands
from wayeb_py import cli
from wayeb_py.run import startup

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL = ROOT / "docs/tutorial.md"
# The installed command in processes of its own: as a newcomer calls it, and where Spark starts and ends with it.
BY_A_SHELL = (ROOT / "README.md", ROOT / "docs/howto/live_stream.md")
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of every fenced block of a language."""
    text = page.read_text()
    return [
        (text.count("\n", 0, match.start(2)) + 1, match[2]) for match in FENCE.finditer(text) if match[1] == language
    ]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name_of(page: Path) -> str:
    return page.name


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with the repository's patterns and sample, in which an example may write."""
    shutil.copytree(ROOT / "patterns", tmp_path / "patterns")
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "data/fleet_sample.parquet", tmp_path / "data")
    return tmp_path


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command with the output that the page shows."""
    for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, output = piece.partition("\n")
        if line.endswith("<<'END'"):
            document, _, output = output.partition("\nEND\n")
            line = f"{line}\n{document}\nEND"
        yield line, output


def as_pattern(shown: str) -> re.Pattern[str]:
    lines = [
        "(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "[ ]*\n" for line in shown.splitlines()
    ]
    return re.compile("".join(lines))


PLAIN_CALL = re.compile(r"wayeb ([^|;&<>$`]+)(?:(\|)|(?=&&|;)|$)")


def run_by_a_shell(command: str, folder: Path, environment: dict[str, str], given: bytes = b"") -> str:
    """What a command prints, to both outputs together."""
    ran = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=given
    )
    return ran.stdout.decode()


def run_here(words: list[str], output: Path) -> int:
    """Runs the command `wayeb` in this process, which is at the page's folder; both outputs go to a file."""
    with (
        output.open("wb", 0) as file,
        Path(os.devnull).open() as nothing,
        pytest.MonkeyPatch.context() as patch,
        TextIOWrapper(file, write_through=True) as text,
    ):
        kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
        for name, value in (("argv", ["wayeb", *words]), ("stdin", nothing), ("stdout", text), ("stderr", text)):
            patch.setattr(sys, name, value)
        patch.setattr(startup, "spare_pandas", lambda: None)  # this process has other tests to run
        try:
            for descriptor, _ in kept:
                os.dup2(file.fileno(), descriptor)
            cli.main()
        except SystemExit as end:
            return int(end.code or 0)
        finally:
            for descriptor, before in kept:
                os.dup2(before, descriptor)
                os.close(before)
    return 0


def run_commands(page: Path, folder: Path, by_a_shell: bool = False) -> None:
    """Runs the commands of a page in a folder, and compares what they print with the page.

    A call of `wayeb` runs in this process, and a shell what follows it: a process of its own takes longer to start than
    the command to run.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in settings.items():
            patch.setenv(name, value)
        for line_number, block in blocks(page, "console"):
            for command, shown in commands(block):
                plain = None if by_a_shell else PLAIN_CALL.match(command)
                if plain is None:
                    printed = run_by_a_shell(command, folder, dict(os.environ))
                else:
                    output = folder.with_name(f"{folder.name} printed")
                    code = run_here(shlex.split(plain[1]), output)
                    rest, own = command[plain.end() :], output.read_bytes()
                    before, given = ("", own) if plain[2] else (f"(exit {code}) ", b"")
                    followed = run_by_a_shell(before + rest, folder, dict(os.environ), given) if rest else ""
                    printed = followed if plain[2] else own.decode() + followed
                lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
                assert as_pattern(shown).fullmatch(lines), f"{page.name}:{line_number}: {command}\nprints\n{lines}"


@pytest.mark.parametrize("page", [page for page in pages_with("console") if page != TUTORIAL], ids=name_of)
def test_commands_print_what_the_page_shows(page: Path, workplace: Path) -> None:
    run_commands(page, workplace, by_a_shell=page in BY_A_SHELL)


def test_the_tutorial_leads_from_an_empty_folder_to_a_map(tmp_path: Path) -> None:
    run_commands(TUTORIAL, tmp_path)
    assert (tmp_path / "map.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("page", pages_with("pycon"), ids=name_of)
def test_sessions_answer_what_the_page_shows(
    page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for line_number, block in blocks(page, "pycon"):
        session = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), line_number - 1)
        runner.run(session, clear_globs=False)
        names = session.globs
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", pages_with("sre"), ids=name_of)
def test_files_on_the_page_are_taken_by_the_checker(page: Path) -> None:
    for _, block in blocks(page, "sre"):
        wayeb_py.compile(block)


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == render_commands() + "\n", "python -m tools.commands_page writes it anew"


def test_every_file_of_the_tree_says_what_it_is_for() -> None:
    lines = re.findall(r"^\| `(\w+\.py)` \| (.*) \|$", tree_page.render_tree(), re.MULTILINE)
    assert len(lines) > 300
    assert [name for name, said in lines if not said] == []


# The page of commands is made from their own help.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "commands.md"], ids=name_of)
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    wrong = re.compile(rf"\b(?:{NOT_WORDS}|eras?(?!/)|{NOT_PROSE})\b", re.IGNORECASE)
    found = [f"{number}: {match[0]}" for number, line in lines_of_prose(page) for match in wrong.finditer(line)]
    assert found == []


def test_the_site_is_whole_and_makes_no_request(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    pages.add(Path("tree.html"))
    assert pages <= {page.relative_to(site) for page in site.rglob("*.html")}
    loaded = re.compile(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)="((?:https?:)?//[^"]*)""")
    assert [address for page in site.rglob("*.html") for address in loaded.findall(page.read_text())] == []


def test_the_picture_of_the_readme_is_small() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    content = (ROOT / picture).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < 300_000


def targets(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", FENCE.sub("", page.read_text())):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert [target for target in targets(page) if not (page.parent / target).exists()] == []
