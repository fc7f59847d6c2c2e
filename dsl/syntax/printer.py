"""A tree becomes text that parses to an equal tree.

The text keeps the parentheses that the tree holds, and adds those that its meaning needs. The formatter uses the same
layout: blocks are indented and aligned, everything else is one line; `format.py` breaks long lines.
"""

from __future__ import annotations

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.lexicon import encode_name, encode_text
from wayeb_py.dsl.syntax.precedence import (
    AND,
    COMPLEMENT,
    INTERSECTION,
    ITERATION,
    NEGATIVE,
    NOT,
    PRODUCT,
    SEQUENCE,
    SUM,
    UNION,
    operand_tightness,
    tightness,
)

_JOINTS: dict[type, tuple[str, int]] = {
    t.Union: (" | ", INTERSECTION),
    t.Intersection: (" & ", SEQUENCE),
    t.Sequence: (" ; ", COMPLEMENT),
    t.Or: (" or ", AND),
    t.And: (" and ", NOT),
}

_Piece = str | tuple[t.Expression, int]  # text, or an expression and how tightly it has to bind


def print_expression(expression: t.Expression) -> str:
    """The text of an expression, on one line."""
    out: list[str] = []
    waiting: list[_Piece] = [(expression, UNION)]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        inner, at_least = piece
        if tightness(inner) < at_least:
            waiting.extend((")", (inner, UNION), "("))
        else:
            waiting.extend(reversed(_pieces(inner)))
    return "".join(out)


def _pieces(e: t.Expression) -> list[_Piece]:
    match e:
        case t.Name(name=name):
            return [encode_name(name)]
        case t.Number():
            return [e.text]
        case t.Text(value=value):
            return [encode_text(value)]
        case t.Word(word=word):
            return [word]
        case t.Call(function=function, arguments=arguments):
            return [function, "(", *_listed(arguments, UNION), ")"]
        case t.Entry(places=places, entry=entry):
            return [encode_name(places), "[", encode_text(entry), "]"]
        case t.Column(variable=variable, column=column):
            return [encode_name(variable), ".", encode_name(column)]
        case t.Parentheses(body=body):
            return ["(", (body, UNION), ")"]
        case t.Negative(operand=operand):
            return ["-", (operand, operand_tightness(operand, NEGATIVE))]
        case t.Arithmetic(operator=operator, left=left, right=right):
            own = SUM if operator in "+-" else PRODUCT
            return [(left, operand_tightness(left, own)), f" {operator} ", (right, operand_tightness(right, own + 1))]
        case t.Compare(comparator=comparator, left=left, right=right):
            return [(left, SUM), f" {comparator} ", (right, SUM)]
        case t.Between(value=value, low=low, high=high, negated=negated):
            # `r.ts..p.ts` is hard to read.
            dots = " .. " if isinstance(low, t.Column) or isinstance(high, t.Column) else ".."
            return [(value, SUM), " not in " if negated else " in ", (low, SUM), dots, (high, SUM)]
        case t.OneOf(value=value, options=options, negated=negated):
            return [(value, SUM), " not in {" if negated else " in {", *_listed(options, SUM), "}"]
        case t.Not(operand=operand):
            return ["not ", (operand, NOT)]
        case t.Complement(operand=operand):
            return ["!", (operand, COMPLEMENT)]
        case t.Iteration(operand=operand, at_least=at_least, at_most=at_most, written=written):
            return [(operand, ITERATION), written or bounds(at_least, at_most)]
        case t.Named(operand=operand, name=name):
            return [(operand, ITERATION), " as ", encode_name(name)]
        case t.Skip(policy=policy, operands=operands):
            return [policy, "(", *_listed(operands, UNION), ")"]
        case t.Union() | t.Intersection() | t.Sequence() | t.Or() | t.And():
            joint, at_least = _JOINTS[type(e)]
            joined: list[_Piece] = []
            for i, operand in enumerate(e.operands):
                joined += [joint, (operand, at_least)] if i else [(operand, at_least)]
            return joined
    raise TypeError(f"not an expression: {type(e).__name__}")


def _listed(items: tuple[t.Expression, ...], at_least: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for i, item in enumerate(items):
        pieces += [", ", (item, at_least)] if i else [(item, at_least)]
    return pieces


def bounds(at_least: int, at_most: int | None) -> str:
    """The sign or the braces of an iteration."""
    match at_least, at_most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case low, None:
            return f"{{{low},}}"
    return f"{{{at_least}}}" if at_least == at_most else f"{{{at_least},{at_most}}}"


def print_tree(tree: t.Tree) -> str:
    """The text of a file, a declaration, a line of one, or an expression."""
    match tree:
        case t.File(declarations=declarations):
            return "".join(f"{print_tree(declaration)}\n" for declaration in declarations)
        case t.Expression():
            return print_expression(tree)
        case t.Stream(name=name, lines=lines):
            body = "".join(f"    {line}\n" for line in stream_lines(lines))
            return f"stream {encode_name(name)} {{\n{body}}}"
        case t.Test(pattern=pattern):
            body = "".join(f"    {line}\n" for line in test_lines(tree))
            return f"test {encode_name(pattern)} {{\n{body}}}"
        case t.Knowledge() | t.Lookup() | t.Let() | t.Pattern() | t.Facts():
            head, tail = head_and_tail(tree)
            return f"{head} {tail}"
        case t.Rule():
            return " ".join(rule_lines(tree))
        case t.Unless(members=members, where=where):
            return f"unless {_members(members)}{_where(where)}"
        case t.OnceFor(members=names):
            return "once for " + ", ".join(map(print_tree, names))
        case t.Member(name=name, of=of, which=which):
            return f"{encode_name(name)}: {'' if which is None else f'{which} of '}{encode_name(of)}"
        case t.Forecast(pattern=pattern, within=within, confidence=confidence):
            held = "" if confidence is None else f" with {confidence.text}"
            return f"forecast {encode_name(pattern)} {print_tree(within)}{held}"
        case t.Include(path=path):
            return f"include {encode_text(path)}"
        case t.ForEach(variable=variable, places=places):
            return f"for each {encode_name(variable)} in {encode_name(places)}"
        case t.EachPair():
            return _each_pair(tree)
        case t.On(stream=stream):
            return f"on {encode_name(stream)}"
        case t.Silence(duration=duration, of=of):
            return f"; silence {'' if of is None else f'of {encode_name(of)} '}{duration.text}"
        case t.WordEnd():
            return "; $"
        case t.Ends(text=text):
            return f"ends at {text}"
        case t.Within(amount=amount, events=events):
            return f"within {amount.text}" + (" events" if events else "")
        case t.Emit(columns=columns):
            return "emit " + ", ".join(map(print_tree, columns))
        case t.Priority(level=level):
            return f"priority {level}"
        case t.ValidFor(duration=duration, otherwise=otherwise):
            return f"valid for {duration.text}" + ("" if otherwise is None else f" else {otherwise}")
        case t.ShedAfter(duration=duration):
            return f"shed after {duration.text}"
        case t.Service():
            clauses = (tree.priority, tree.valid, tree.shed)
            return " ".join(print_tree(clause) for clause in clauses if clause is not None)
        case t.Emitted(variable=variable, column=column, name=given):
            written = encode_name(column) if variable is None else f"{encode_name(variable)}.{encode_name(column)}"
            return written if given is None else f"{written} as {encode_name(given)}"
        case t.Which(words=words):
            return words
        case t.EmittedValue(value=value, name=given):
            written = print_expression(value)
            return written if given is None else f"{written} as {encode_name(given)}"
        case t.Item(text=text, quoted=quoted):
            return encode_text(text) if quoted else text
        case t.TestLine(attribute=attribute, items=items):
            return " ".join([_column_head(attribute), *map(print_tree, items)])
        case t.ExpectedDetection(at=at, start=start):
            return str(at) if start is None else f"{at} from {start}"
        case t.ExpectedMatch():
            return _match(tree)
        case t.Broken(keyword=keyword, name=broken_name):
            return f"// {keyword} {broken_name or ''}: could not be read"
    return " ".join(part for part in _words_of_line(tree) if part)


def head_and_tail(declaration: t.Knowledge | t.Lookup | t.Let | t.Pattern | t.Facts) -> tuple[str, str]:
    """The text of a declaration before and from its `=`, `:=` or `from`."""
    match declaration:
        case t.Knowledge(shape=shape, name=name, path=path, name_column=column):
            named = "" if column is None else f" name {encode_text(column)}"
            return f"{shape} {encode_name(name)}", f"from {encode_text(path)}{named}"
        case t.Lookup(name=name, path=path, valid=valid, nearest=nearest):
            found = f"by time {valid.text}, nearest {nearest.text}"
            return f"lookup {encode_name(name)}", f"from {encode_text(path)} {found}"
        case t.Facts(name=name, columns=columns):
            return f"facts {encode_name(name)}({', '.join(map(print_tree, columns))})", f"from {_origin(declaration)}"
        case t.Let(name=name, body=body):
            return f"let {encode_name(name)}", f"= {print_expression(body)}"
        case t.Pattern(name=name, body=body, each=each, on=on):
            said = [print_tree(part) for part in (on, each) if part is not None]
            head = " ".join([f"pattern {encode_name(name)}", *said])
            own: tuple[t.Tree | None, ...] = (declaration.silence, declaration.within, declaration.which)
            own = (*own, declaration.emit, declaration.service)
            clauses = [print_tree(clause) for clause in own if clause is not None]
            return head, " ".join([":=", print_expression(body), *clauses])


def _each_pair(each: t.EachPair) -> str:
    a, b = map(encode_name, each.variables)
    stream = encode_name(each.stream)
    of = f"{a}, {b} in {stream}" if each.other is None else f"{a} in {stream}, {b} in {encode_name(each.other)}"
    what = "ordered pair" if each.ordered else "pair"
    reach = f"within {each.within.text} fresh {each.fresh.text}"
    return f"for each {what} {of} {reach}" + (" projected" if each.projected else "")


def _origin(facts: t.Facts) -> str:
    if facts.path is None:
        return f"changes {encode_name(facts.stream or '')}"
    columns = ", ".join(map(print_tree, facts.file_columns))
    return encode_text(facts.path) + (f" columns ({columns})" if columns else "")


def rule_lines(rule: t.Rule) -> list[str]:
    """The text of a rule in the lines of its usual layout: its name, its members, and a line for each clause."""
    members = ("every combination of " if rule.every_combination else "") + _members(rule.members)
    where = [] if rule.where is None else [_where(rule.where).lstrip()]
    own = (*rule.unless, rule.once_for, rule.within, rule.emit, rule.service)
    clauses = [clause for clause in own if clause is not None]
    return [f"rule {encode_name(rule.name)} :=", members, *where, *map(print_tree, clauses)]


def _members(members: tuple[t.Member, ...]) -> str:
    return ", ".join(map(print_tree, members))


def _where(condition: t.Expression | None) -> str:
    return "" if condition is None else f" where {print_expression(condition)}"


def _match(match: t.ExpectedMatch) -> str:
    times = (("at", match.at), ("from", match.start), ("decided", match.decided))
    words = [*map(str, match.rows), *(f"{clause} {time}" for clause, time in times if time is not None)]
    return " ".join(words if match.op is None else [match.op, *words])


def _column_head(attribute: str | None) -> str:
    if attribute is None:
        return "at:"
    # A column with the name of a line of the block needs backquotes.
    return f"`{attribute}`:" if attribute in ("at", "detects") else f"{encode_name(attribute)}:"


def _words_of_line(line: t.Tree) -> list[str]:
    match line:
        case t.Key(column=column):
            return ["key", encode_name(column)]
        case t.Time(column=column, unit=unit):
            return ["time", encode_name(column), f"in {unit}" if unit else ""]
        case t.Position(lon=lon, lat=lat):
            return ["position", f"{encode_name(lon)}, {encode_name(lat)}"]
        case t.Attr(name=name, kind=kind, unit=unit):
            return ["attr", encode_name(name), f"{kind} in {unit}" if unit else kind]
        case t.Motion(speed=speed, course=course):
            return ["motion", f"{encode_name(speed)}, {encode_name(course)}"]
        case t.Order(column=column):
            return ["order", encode_name(column)]
        case t.Lateness(duration=duration):
            return ["lateness", duration.text]
        case t.Forget(duration=duration):
            return ["forget after", duration.text]
        case t.Dedupe():
            return ["dedupe"]
        case t.Replace():
            return ["replace"]
        case t.Clean(what=what):
            return ["clean", what]
    raise TypeError(f"not a part of a file: {type(line).__name__}")


def stream_lines(lines: tuple[t.StreamLine, ...]) -> list[str]:
    """The lines of a stream block: what they declare is aligned in one column, the types of attributes in another."""
    words = [_words_of_line(line) for line in lines]
    keyword_width = max((len(w[0]) for w in words if len(w) > 1), default=0)
    name_width = max((len(w[1]) for w in words if w[0] == "attr"), default=0)
    printed = []
    for w in words:
        head = w[0].ljust(keyword_width)
        if w[0] == "attr":
            printed.append(f"{head} {w[1].ljust(name_width)} {w[2]}")
        else:
            printed.append(" ".join([head, *(part for part in w[1:] if part)]).rstrip())
    return printed


def test_lines(test: t.Test) -> list[str]:
    """The lines of a test block: the values of one event stand below each other."""
    rows = [[_column_head(line.attribute), *map(print_tree, line.items)] for line in test.lines]
    width = [0] * max((len(row) for row in rows), default=0)
    for row in rows:
        for i, word in enumerate(row):
            width[i] = max(width[i], len(word))
    lines = [" ".join(word.ljust(width[i]) for i, word in enumerate(row)).rstrip() for row in rows]
    ends = [] if test.ends is None else [print_tree(test.ends)]
    return [*lines, *ends, _detects(test)]


def _detects(test: t.Test) -> str:
    """What a test expects."""
    if test.matches:
        return "detects " + ", ".join(map(print_tree, test.matches))
    return "detects at " + ", ".join(map(print_tree, test.detects)) if test.detects else "detects nothing"
