"""Mistakes in expressions become messages: each function makes one syntax error.

Messages use the words of the language reference, not those of parsers: no reader needs to know what a token is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import habits
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import DECLARATIONS, RESERVED, Token
from wayeb_py.dsl.wording import close_to, did_you_mean, shown
from wayeb_py.errors import Span

# Words that other languages have after a pattern.
_FOREIGN_CLAUSES = frozenset([
    "where", "when", "while", "having", "every", "after", "before", "until", "unless", "if", "during", "partition",
    "group", "by", "window", "timeout", "select", "return", "returning", "as", "with", "from", "over", "skip",
    "limit", "per", "on", "using", "each", "for", "strict", "relaxed",
])  # fmt: skip

# Signs of other languages: what to write instead.
_FOREIGN_SIGNS: dict[str, tuple[str, str]] = {
    "&&": ("`&&` is not an operator", "write `and` between predicates, `&` between regexes"),
    "||": ("`||` is not an operator", "write `or` between predicates, `|` between regexes"),
    "==": ("`==` is not an operator", "write `=`"),
    "<>": ("`<>` is not an operator", "write `!=`"),
    "=>": ("`=>` is not an operator", "write `>=`"),
    "=<": ("`=<` is not an operator", "write `<=`"),
    "->": ("`->` is not an operator", "write `;` for one event after the other"),
    "^": ("`^` is not an operator", "write `and` between predicates, `&` between regexes"),
    "~": ("`~` is not an operator", "write `not` for a predicate, `!` for a regex"),
    "%": ("`%` is not an operator", "write a fraction such as 0.5 for 50 %"),
    "×": ("`×` is not an operator", "write `*`"),
    "÷": ("`÷` is not an operator", "write `/`"),
    "→": ("`→` is not an operator", "write `;` for one event after the other"),
    "−": ("`−` is not a minus sign here", "write `-`"),
    "–": ("`–` is not a minus sign here", "write `-`"),
    "…": ("`…` is not a range", "write `..`"),
    "∩": ("`∩` is not an operator", "write `&`"),
    "∪": ("`∪` is not an operator", "write `|`"),
    "∈": ("`∈` is not an operator", "write `in`"),
}
_QUOTES = "'‘’“”„«»"


# Brackets.


def never_closed(opening: Token) -> PatternSyntaxError:
    what = "brace" if opening.text == "{" else "parenthesis"
    return PatternSyntaxError(
        f"this {what} is never closed", opening.span, f"opened here, and its `{_closing(opening)}` is missing"
    )


def _closing(opening: Token) -> str:
    return "}" if opening.text == "{" else ")"


def clause_inside(token: Token) -> PatternSyntaxError:
    """`within` or `emit` in parentheses that are closed after it."""
    if token.text == "emit":
        return PatternSyntaxError(
            "`emit` holds for a whole pattern", token.span, "inside parentheses", "put it at the very end"
        )
    return PatternSyntaxError(
        "`within` holds for a whole pattern",
        token.span,
        "inside parentheses",
        "put it at the end of the pattern; a part that needs a window of its own is a pattern of its own",
    )


def silence_inside(token: Token) -> PatternSyntaxError:
    """`; silence` or `; $` in parentheses."""
    return PatternSyntaxError(
        f"`{token.text}` is the last part of a pattern",
        token.span,
        "inside parentheses",
        f"put it at the end of the pattern: `R ; {'$' if token.text == '$' else 'silence 1 h'}`",
    )


def silence_alone(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        "`silence` comes after `;`, at the end of a pattern",
        token.span,
        "no sequence is before it",
        "write `R ; silence 1 h`: R, and then no event for an hour",
    )


def closes_nothing(token: Token) -> PatternSyntaxError:
    what, opening = ("brace", "{") if token.text == "}" else ("parenthesis", "(")
    return PatternSyntaxError(f"this {what} closes nothing", token.span, f"no `{opening}` is open here")


def policy_without_parenthesis(text: str, token: Token, before: Token | None) -> PatternSyntaxError:
    comment = habits.where_a_value_is_expected(text, token, before)
    return comment or PatternSyntaxError(
        f"`{token.text}` is not followed by its parenthesis",
        token.span,
        "a list in parentheses is expected right after it",
        f"write `{token.text}(a, b)`",
    )


def bad_entry(name: Token, opening: Token, entry: Token) -> PatternSyntaxError:
    if entry.kind == "number":
        return PatternSyntaxError(
            "how often comes in braces, after what is repeated",
            opening.span,
            "not a brace",
            f"write `{name.text}{{{entry.text}}}`",
        )
    return PatternSyntaxError(
        "between `[` and `]` stands the name of one place, in double quotes",
        opening.span,
        "expected such a name here",
        f'write `{name.text}["Brest"]`',
    )


# Operators.


def prefix_inside(token: Token, waiting: Token) -> PatternSyntaxError:
    if token.text == "!":
        return PatternSyntaxError(
            f"`!` cannot stand after `{waiting.text}`",
            token.span,
            "`!` is the complement of a regex",
            "write `not` for a predicate",
        )
    return PatternSyntaxError(
        f"`not` cannot stand after `{waiting.text}`",
        token.span,
        f"`{waiting.text}` binds more tightly than `not`",
        "put what belongs to `not` in parentheses, together with it",
    )


def after_set(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        f"`{token.text}` cannot follow `in {{…}}` directly",
        token.span,
        "what is before it is a predicate",
        "put the predicate in parentheses",
    )


def iteration_in_sum(token: Token) -> PatternSyntaxError:
    hint = "write `x * x` for a square" if token.text == "*" else None
    return PatternSyntaxError(
        f"`{token.text}` cannot follow an iteration", token.span, "what is before it is a regex, not a number", hint
    )


def chained_comparison(text: str, token: Token, operands: list[tuple[t.Expression, int]]) -> PatternSyntaxError:
    middle = operands[-1][0]
    hint = "join two comparisons with `and`"
    if len(operands) > 1:
        first = shown(text[operands[-2][0].span.start : middle.span.end])
        rest = re.compile(r"\s*(-?[\w.]+(?: ?(?:km/h|m/s|nmi|km|kn|m|s|min|h|d)\b)?)").match(text, token.end)
        last = rest[1] if rest else "…"
        hint = f"write `{first} and {shown(text[middle.span.start : middle.span.end])} {token.text} {last}`"
    return PatternSyntaxError("comparisons do not chain", token.span, "a second comparison of the same value", hint)


def square_set(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        "a set stands in braces", token.span, "not a bracket of a set", 'write `in {"a", "b"}` or `in 5..9`'
    )


def in_without_range(operand: t.Expression) -> PatternSyntaxError:
    ends: tuple[t.Expression, ...] = ()
    if isinstance(operand, t.Arithmetic) and operand.operator == "-":
        ends = (operand.left, operand.right)
    elif isinstance(operand, t.Call) and operand.function in ("range", "interval", "between"):
        ends = operand.arguments
    numbers = [end.text for end in ends if isinstance(end, t.Number)]
    if len(ends) == len(numbers) == 2:
        low, high = numbers
        return PatternSyntaxError(
            "a range is written with `..`", operand.span, "not a range", f"write `in {low}..{high}`"
        )
    if isinstance(operand, t.Name):
        return PatternSyntaxError(
            "`in` needs a range or a set",
            operand.span,
            "neither a range nor a set",
            f'write `in 5..9` or `in {{"a", "b"}}`; of places `inside({operand.name})`, `near({operand.name}, 1 km)`',
        )
    return PatternSyntaxError(
        "`in` needs a range or a set",
        operand.span,
        "neither a range nor a set",
        'write `in 5..9` for a range, `in {"a", "b"}` for a set',
    )


def stray_dots(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        "`..` stands only in a range after `in`",
        token.span,
        "no `in` before it",
        "write `x in 5..9`, without parentheses or braces",
    )


def stray_comma(token: Token, before: Token, after: Token) -> PatternSyntaxError:
    if before.kind == "number" and after.kind == "number" and before.end == token.start and after.start == token.end:
        whole = before.text.replace(".", "") if re.fullmatch(r"\d{1,3}\.\d{3}", before.text) else before.text
        hint = f"write `{whole}.{after.text}`"
        if re.fullmatch(r"\d{3}(?:\.\d+)?", after.text) and before.text.isdecimal() and before.text != "0":
            hint = f"write `{before.text}{after.text}`, or `{before.text}.{after.text}` if the comma is a decimal point"
        return PatternSyntaxError(
            "a number has a decimal point, not a comma", before.span.to(after.span), "a comma inside a number", hint
        )
    return PatternSyntaxError(
        "`,` joins nothing here",
        token.span,
        "it stands only in lists",
        "write `;` for one event after the other, `and` for predicates that hold together",
    )


def check_comment(text: str, token: Token, operand: t.Expression) -> None:
    """Refuses a comment of SQL or C, which would be read as a sum."""
    after_letter = isinstance(operand, (t.Parentheses, t.Iteration, t.Name, t.Word, t.Skip))
    if re.compile(r"--\s|/\*").match(text, token.start) and after_letter:
        raise PatternSyntaxError(
            habits.A_COMMENT, Span(token.start, token.start + 2), "does not begin a comment here", "write `//`"
        )


# Bounds of an iteration.


def bad_bounds(text: str, opening: Token, token: Token) -> PatternSyntaxError:
    if token.kind == "end":
        return never_closed(opening)
    ends = re.compile(r"\{\s*(\d+)\s*(?:\.\.+|-|–|:|to)\s*(\d+)\s*\}").match(text, opening.start)
    least = re.compile(r"\{\s*(?:at\s+least|>=?)\s*(\d+)\s*\}|\{\s*(\d+)\s*\+\s*\}").match(text, opening.start)
    if ends or least:
        instead = f"{{{ends[1]},{ends[2]}}}" if ends else f"{{{least[1] or least[2]},}}" if least else ""
        return PatternSyntaxError(
            "how often an iteration goes is told by whole numbers", token.span, "not a comma", f"write `{instead}`"
        )
    return PatternSyntaxError(
        "how often an iteration goes is told by whole numbers",
        token.span,
        "not a whole number",
        "write `{3}`, `{3,}` or `{3,5}`",
    )


def wrong_bounds(shape: str, span: Span, numbers: list[str]) -> PatternSyntaxError:
    hint = f"write `{{0,{numbers[0]}}}`" if shape == ",n" else "write `{3}`, `{3,}` or `{3,5}`"
    return PatternSyntaxError(
        "how often an iteration goes is told by one or two whole numbers", span, "not such bounds", hint
    )


def reversed_bounds(low: int, high: int, span: Span) -> PatternSyntaxError:
    return PatternSyntaxError(
        f"an iteration cannot go at least {low} and at most {high} times",
        span,
        "the upper bound is below the lower",
        f"did you mean `{{{high},{low}}}`?",
    )


# Something is missing, or too much.


def foreign(text: str, token: Token) -> PatternSyntaxError | None:
    """The message for a character or sign that the language does not have."""
    if token.kind == "sign" and token.text in _FOREIGN_SIGNS:
        message, hint = _FOREIGN_SIGNS[token.text]
        return PatternSyntaxError(message, token.span, "not an operator of this language", hint)
    if token.kind == "sign" and token.text in (":=", ":"):
        return PatternSyntaxError(
            f"`{token.text}` cannot stand here", token.span, "inside an expression", "write `=` to compare with a value"
        )
    if token.kind != "stray":
        return None
    if token.text == '"':
        return unclosed(text, token, "this text is never closed", 'no `"` follows on this line')
    if token.text == "`":
        return unclosed(text, token, "this backquote is never closed", "no second backquote follows on this line")
    if token.text in _QUOTES:
        closing = next((i for i in range(token.end, len(text)) if text[i] in _QUOTES or text[i] == "\n"), len(text))
        closed = closing < len(text) and text[closing] != "\n"
        span = Span(token.start, closing + 1 if closed else token.end)
        instead = f'write `"{shown(text[token.end : closing])}"`' if closed else None
        return PatternSyntaxError("text stands in double quotes", span, "other quotes", instead)
    if token.text in _FOREIGN_SIGNS:
        message, hint = _FOREIGN_SIGNS[token.text]
        return PatternSyntaxError(message, token.span, "not an operator of this language", hint)
    plain = unicodedata.normalize("NFKC", token.text)
    if plain != token.text and len(plain) == 1 and plain.isascii() and plain.isprintable():
        return PatternSyntaxError(
            f"`{token.text}` is not the sign `{plain}`",
            token.span,
            unicodedata.name(token.text, "another character").lower(),
            f"write `{plain}`",
        )
    code = f"U+{ord(token.text):04X}"
    if unicodedata.category(token.text) == "Cf":
        return PatternSyntaxError(
            f"an invisible character stands here, {code}", token.span, "cannot be seen", "delete it"
        )
    name = token.text if token.text.isprintable() else code
    return PatternSyntaxError(f"`{name}` means nothing here", token.span, "a character that the language does not have")


def unclosed(text: str, token: Token, message: str, label: str) -> PatternSyntaxError:
    end = text.find("\n", token.start)
    end = len(text) if end < 0 else end
    return PatternSyntaxError(message, Span(token.start, token.start + len(text[token.start : end].rstrip())), label)


def is_shouted(word: str) -> bool:
    """Whether a word is one of the language's, but not in lower case."""
    return word.lower() in RESERVED and word not in RESERVED


def shouted(span: Span, word: str) -> PatternSyntaxError:
    return PatternSyntaxError(
        f"`{word.lower()}` is written in lower case", span, "not a word of this language", f"write `{word.lower()}`"
    )


def reserved_word(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        f"`{token.text}` is a reserved word",
        token.span,
        "cannot be a name",
        f"if a column has this name, write it in backquotes: `` `{token.text}` ``",
    )


def nothing_follows(span: Span) -> PatternSyntaxError:
    return PatternSyntaxError("an expression is missing here", span, "nothing follows")


def no_operand(text: str, token: Token, before: Token | None, opening: Token | None) -> PatternSyntaxError:
    """Something that is no value, predicate or regex stands where one is expected."""
    found = habits.where_a_value_is_expected(text, token, before) or foreign(text, token)
    if found is not None:
        return found
    after = "" if before is None else f" after `{before.text}`"
    if token.kind == "name" and token.text in DECLARATIONS:
        return reserved_word(token)
    if before is not None and before.text == "(" and token.text == ")":
        return PatternSyntaxError("there is nothing between these parentheses", before.span.to(token.span), "empty")
    if before is not None and before.text == "{" and token.text == "}":
        return PatternSyntaxError("this set is empty", before.span.to(token.span), "nothing is in it")
    if token.kind == "sign" and token.text == "." and before is not None:
        return PatternSyntaxError(
            "a number needs digits before its decimal point", token.span, "begins with a point", "write `0.5`"
        )
    if before is None or (before.text == "(" and token.kind != "end"):
        if token.text in ("{", "["):
            return PatternSyntaxError(
                f"`{token.text}` cannot begin an expression", token.span, "not a parenthesis", "write `(`"
            )
        hint = "a number needs no plus sign" if token.text == "+" else None
        return PatternSyntaxError(
            f"something is missing before `{token.text}`", token.span, "has nothing on its left", hint
        )
    if token.kind == "end" and opening is not None and before.start == opening.start:
        return never_closed(opening)
    hint = None
    if token.kind == "end" and before.text in (";", ","):
        hint = f"leave out the last `{before.text}`, or write what comes after it"
    elif before.text == "=" and token.text == "=":
        hint = "write `=`"
    elif token.text == "+":
        hint = "a number needs no plus sign"
    return PatternSyntaxError(f"something is missing{after}", before.span, "has nothing on its right", hint)


def looks_like_clause(token: Token, clauses: Sequence[str] = ("within", "emit")) -> bool:
    """Whether a word is meant to be a clause such as `within`."""
    if token.kind != "name" or token.text in RESERVED:
        return False
    return token.text.lower() in _FOREIGN_CLAUSES or close_to(token.text, clauses) is not None


def begins_comparison(token: Token) -> bool:
    """Whether a sign or word continues a value; the word before it must then be that value."""
    return token.text in (">", ">=", "<", "<=", "=", "!=", "in", "(", ".", "not")


def no_operator(
    text: str,
    token: Token,
    operand: t.Expression,
    waiting: Sequence[Token],
    in_list: bool,
) -> PatternSyntaxError:
    """Two things stand side by side with nothing that joins them; `in_list` if they stand in a set or a call."""
    found = None if in_list else habits.where_an_operator_is_expected(text, token, operand)
    found = found or foreign(text, token)
    if found is not None:
        return found
    left = shown(text[operand.span.start : operand.span.end])
    if token.kind == "name" and is_shouted(token.text):
        return shouted(token.span, token.text)
    if isinstance(operand, t.Name) and is_shouted(operand.name):
        return shouted(operand.span, operand.name)
    if isinstance(operand, t.Name) and operand.name in USAGE and token.kind in ("name", "backquoted"):
        usage = f"write `{operand.name}({token.text})`"
        return PatternSyntaxError(
            "the arguments of a call stand in parentheses", operand.span.to(token.span), "no parentheses", usage
        )
    if in_list and token.kind in ("text", "number", "name", "backquoted") and token.text not in RESERVED:
        return PatternSyntaxError(
            f"a comma is missing between `{left}` and `{shown(token.text)}`",
            token.span,
            "nothing joins the two",
            "write `,`",
        )
    if token.text == "(" and isinstance(operand, t.Name) and operand.name in USAGE:
        return PatternSyntaxError(
            "the parenthesis of a call touches its name",
            Span(operand.span.start, token.end),
            "a space before the parenthesis",
            f"write `{operand.name}(`",
        )
    if looks_like_clause(token):
        return PatternSyntaxError(
            f"unknown clause `{token.text}`",
            token.span,
            "a pattern may end in `within` and `emit`",
            did_you_mean(token.text, ["within", "emit"]),
        )
    if token.kind == "sign" and token.text == ".":
        return PatternSyntaxError(
            "`.` is not an operator", token.span, "joins nothing", "write `;` for one event after the other"
        )
    if token.kind == "sign" and token.text in "[]":
        return PatternSyntaxError(
            f"`{token.text}` cannot stand here", token.span, "stands only right after the name of places"
        )
    if token.kind == "name" and token.text in DECLARATIONS:
        return PatternSyntaxError(
            f"`{token.text}` begins a declaration, and stands at the start of a line",
            token.span,
            "in the middle of another declaration",
            f"begin a new line, or write `` `{token.text}` `` if a column has this name",
        )
    in_predicate = any(sign.text not in (";", "|", "&", "!") for sign in waiting)
    between = Span(operand.span.end, max(token.start, operand.span.end + 1))
    right = shown(_operand_text(text, token))
    letters = (t.Name, t.Word, t.Parentheses, t.Iteration, t.Skip, t.Complement, t.Call)
    if not in_predicate and isinstance(operand, letters) and token.kind not in ("number", "text"):
        return PatternSyntaxError(
            f"a `;` is missing between `{left}` and `{right}`",
            between if "\n" not in text[between.start : between.end] else token.span,
            "nothing joins the two",
            "write `;` for one event after the other",
        )
    return PatternSyntaxError(
        f"nothing joins `{left}` and `{right}`",
        token.span,
        "an operator is missing before this",
        "write `and` or `or` between predicates, `;` between the letters of a sequence",
    )


def _operand_text(text: str, token: Token) -> str:
    """The text that begins here, up to the end of a parenthesis."""
    if token.text not in ("(", "!", "#", "@"):
        return text[token.start : token.end]
    depth = 0
    for i in range(token.start, min(len(text), token.start + 200)):
        depth += (text[i] == "(") - (text[i] == ")")
        if text[i] == ")" and depth == 0:
            return text[token.start : i + 1]
    return text[token.start : token.end]
