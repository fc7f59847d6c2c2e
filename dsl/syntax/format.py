"""The text of a .sre file in its usual layout, with every comment.

A declaration is printed from its tree, which gives the same tokens as its text; comments go back between the tokens
where they stood. In blocks they go back to the lines where they stood. Lines that grow too long are broken before an
operator, outer ones first. Formatting the text token by token would need no printer, but could not align blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.lexicon import BLANK, COMMENT, TEXT, TOKEN, Token, encode_name, tokens_of
from wayeb_py.dsl.syntax.parser import parse
from wayeb_py.dsl.syntax.printer import head_and_tail, print_tree, rule_lines, stream_lines, test_lines

WIDTH = 120
_INDENT = "    "
_WITH_A_HEAD = (t.Knowledge, t.Lookup, t.Let, t.Pattern, t.Facts)
_BREAK_BEFORE = frozenset([";", "|", "&", "and", "or", "where", "within", "emit"])
_COMMENT = re.compile(str(COMMENT.pattern))
_TEXT_OR_COMMENT = re.compile(f"{TEXT.pattern}|(?P<comment>{COMMENT.pattern})")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment without the blanks at its end, and whether it has a line of its own."""

    text: str
    start: int
    alone: bool


def format_text(text: str) -> str:
    """The text in its usual layout; raises PatternError if it cannot be parsed."""
    file = parse(text)
    lines: list[str] = []
    end = 0
    for declaration, width in zip(file.declarations, _head_widths(text, file.declarations), strict=True):
        start, stop = declaration.span.start, declaration.span.end
        _between(text, end, start, lines)
        lines.extend(_declaration(text, declaration, width, _comments(text, start, stop, declaration)))
        end = stop
    _between(text, end, len(text), lines)
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _head_widths(text: str, declarations: tuple[t.Declaration, ...]) -> list[int]:
    """How wide the part before `=`, `:=` or `from` is: the same for declarations of one kind on consecutive lines."""
    widths = [0] * len(declarations)
    run: list[int] = []
    for i, declaration in enumerate(declarations):
        previous = declarations[i - 1] if run else declaration
        apart = text.count("\n", previous.span.end, declaration.span.start) > 1
        if apart or type(previous) is not type(declaration):
            run = []
        if not isinstance(declaration, _WITH_A_HEAD) or _is_of_pairs(declaration):
            run = []
            continue
        run.append(i)
        widest = max(widths[run[0]], len(head_and_tail(declaration)[0]))
        for k in run:
            widths[k] = widest
    return widths


def _between(text: str, start: int, end: int, lines: list[str]) -> None:
    """Adds the comments between two declarations, and one blank line wherever there are some."""
    at = start
    for comment in _COMMENT.finditer(text, start, end):
        newlines = text.count("\n", at, comment.start())
        written = comment[0].rstrip()
        if newlines == 0 and start > 0 and lines:
            lines[-1] += f"  {written}"
        else:
            _blank_line(newlines, lines)
            lines.append(written)
        at = comment.end()
    _blank_line(text.count("\n", at, end), lines)


def _blank_line(newlines: int, lines: list[str]) -> None:
    if newlines > 1 and lines and lines[-1]:
        lines.append("")


def _comments(text: str, start: int, end: int, declaration: t.Declaration) -> list[Comment]:
    """The comments inside a declaration."""
    found: list[tuple[int, str]] = []
    if isinstance(declaration, t.Test):
        # The words of a test are not those of the language, but its texts and comments are.
        matches = _TEXT_OR_COMMENT.finditer(text, start, end)
        found = [(match.start(), match[0]) for match in matches if match["comment"]]
    else:
        at = start
        while at < end:
            blank = BLANK.match(text, at, end)
            after = blank.end() if blank else at
            found.extend((comment.start(), comment[0]) for comment in _COMMENT.finditer(text, at, after))
            token = TOKEN.match(text, after, end)
            at = token.end() if token else end
    return [
        Comment(comment.rstrip(), place, not text[text.rfind("\n", 0, place) + 1 : place].strip())
        for place, comment in found
    ]


def _declaration(text: str, declaration: t.Declaration, width: int, comments: list[Comment]) -> list[str]:
    if isinstance(declaration, t.Stream):
        places = [line.span.start for line in declaration.lines]
        return _block(f"stream {encode_name(declaration.name)} {{", stream_lines(declaration.lines), places, comments)
    if isinstance(declaration, t.Test):
        ends = [] if declaration.ends is None else [declaration.ends.span.start]
        places = [*(line.span.start for line in declaration.lines), *ends, declaration.detects_span.start]
        return _block(f"test {encode_name(declaration.pattern)} {{", test_lines(declaration), places, comments)
    printed, head, tail = print_tree(declaration), "", ""
    if isinstance(declaration, _WITH_A_HEAD):
        head, tail = head_and_tail(declaration)
        printed = f"{head.ljust(width)} {tail}"
    if not comments and _is_of_pairs(declaration) and len(printed) > WIDTH:
        # What a pair is takes a line of its own.
        return [f"{head} :=", *_wrapped(_INDENT + tail.removeprefix(":= "), _INDENT)]
    if isinstance(declaration, t.Rule):
        return _with_comments(text, declaration, printed, comments, _line_starts(rule_lines(declaration)))
    if not comments:
        return _wrapped(printed, _INDENT)
    return _with_comments(text, declaration, printed, comments)


def _line_starts(lines: list[str]) -> list[int]:
    """Where lines begin once blanks join them."""
    return [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]


def _is_of_pairs(declaration: t.Declaration) -> bool:
    return isinstance(declaration, t.Pattern) and isinstance(declaration.each, t.EachPair)


def _block(head: str, lines: list[str], places: list[int], comments: list[Comment]) -> list[str]:
    """A block whose lines begin in the text at the places; each comment goes to the line where it stood."""
    trailing: dict[int, list[str]] = {}
    above: dict[int, list[str]] = {}
    for comment in comments:
        if comment.alone:
            following = [i for i, place in enumerate(places) if place > comment.start]
            above.setdefault(min(following, key=lambda i: places[i], default=len(lines)), []).append(comment.text)
        else:
            before = [i for i, place in enumerate(places) if place < comment.start]
            trailing.setdefault(max(before, key=lambda i: places[i], default=-1), []).append(comment.text)
    indented = [f"{_INDENT}{line}" for line in lines]
    width = max((len(line) for i, line in enumerate(indented) if i in trailing), default=0)
    out = ["  ".join([head, *trailing.get(-1, [])])]
    for i, line in enumerate(indented):
        out.extend(f"{_INDENT}{comment}" for comment in above.get(i, []))
        out.append("  ".join([line.ljust(width) if i in trailing else line, *trailing.get(i, [])]))
    out.extend(f"{_INDENT}{comment}" for comment in above.get(len(lines), []))
    return [*out, "}"]


def _with_comments(
    text: str, declaration: t.Declaration, printed: str, comments: list[Comment], starts: list[int] | None = None
) -> list[str]:
    """The declaration broken at its comments, and where lines have to start."""
    written = tokens_of(text, declaration.span.start, declaration.span.end)[:-1]
    tokens = tokens_of(printed, 0, len(printed))[:-1]
    lines: list[str] = []
    done = 0
    for comment in comments:
        n_before = sum(token.start < comment.start for token in written)
        if n_before > done:
            lines.extend(_segment(printed, tokens[done:n_before], bool(lines), starts))
            done = n_before
        if comment.alone or lines[-1].lstrip().startswith("//") or "  //" in lines[-1]:
            lines.append(f"{_INDENT}{comment.text}")
        else:
            lines[-1] += f"  {comment.text}"
    if done < len(tokens):
        lines.extend(_segment(printed, tokens[done:], bool(lines), starts))
    return lines


def _segment(printed: str, tokens: list[Token], continues: bool, starts: list[int] | None) -> list[str]:
    """Some tokens as one line, or as lines that begin at `starts`; a line that is too long continues on another."""
    if starts is None:
        piece = printed[tokens[0].start : tokens[-1].end]
        return _wrapped(_INDENT + piece if continues else piece, _INDENT)
    lines: list[str] = []
    first = 0
    for i in range(1, len(tokens) + 1):
        if i == len(tokens) or tokens[i].start in starts:
            piece = printed[tokens[first].start : tokens[i - 1].end]
            indent = _INDENT if continues or lines else ""
            lines.extend(_wrapped(indent + piece, _INDENT + _INDENT))
            first = i
    return lines


def _wrapped(line: str, indent: str) -> list[str]:
    """The line, broken before operators where it is too long: at the outermost ones that fit."""
    lines: list[str] = []
    while len(line) > WIDTH:
        depth = 0
        best: tuple[int, int] | None = None  # (depth, place)
        for token in tokens_of(line, len(line) - len(line.lstrip()), len(line)):
            if token.start > WIDTH:
                break
            if token.text in ("(", "{", "["):
                depth += 1
            elif token.text in (")", "}", "]"):
                depth -= 1
            elif token.text in _BREAK_BEFORE and token.start > len(indent) and (best is None or depth <= best[0]):
                best = (depth, token.start)
        if best is None:
            break
        lines.append(line[: best[1]].rstrip())
        line = indent + line[best[1] :]
    return [*lines, line]
