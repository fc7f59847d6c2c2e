"""`wayeb check`: pattern files in, everything that is wrong with them out."""

from __future__ import annotations

import json
import sys

from wayeb_py.cli.diagnostics import as_json_object
from wayeb_py.cli.exit_codes import LIMIT_FAULT, PATTERN_FAULT, explained
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import AsJson, PatternFolders, Quiet, Strict
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces
from wayeb_py.dsl.wording import counted
from wayeb_py.errors import Diagnostic, LimitError, PatternError


@grouped
@explained()
def check_files(
    files: PatternFolders,
    *,
    compiling: PatternOptionsWithPlaces,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Report everything that is wrong with pattern files; nothing is run."""
    from wayeb_py.cli.pattern_files import find_whole_files
    from wayeb_py.compiler.review.facts import review_facts
    from wayeb_py.compiler.review.places import review_places

    found: list[Diagnostic] = []
    limits: list[LimitError] = []
    n_patterns = n_rules = 0
    paths = find_whole_files(files)
    for path, its_places in zip(paths, compiling.places_by_file(paths), strict=True):
        try:
            patterns = compiling.compile_with(its_places, [path])
        except PatternError as error:
            found += error.diagnostics
        except LimitError as error:
            limits.append(error)
        else:
            facts = review_facts(patterns.meaning, patterns.knowledge.outside)
            found += [*patterns.warnings, *review_places(patterns), *facts]
            n_patterns += len(patterns.names)
            n_rules += len(patterns.rule_names)
    n_errors = sum(diagnostic.severity == "error" for diagnostic in found)
    if as_json:
        print(json.dumps([as_json_object(diagnostic) for diagnostic in found], ensure_ascii=False, indent=2))
    elif found:
        print("\n\n".join(diagnostic.render() for diagnostic in found), file=sys.stderr)
    for limit in limits:
        print(limit, file=sys.stderr)
    if n_errors or (strict and found):
        raise SystemExit(PATTERN_FAULT)
    if limits:
        raise SystemExit(LIMIT_FAULT)
    if not quiet and not as_json:
        warned = f", {counted(len(found), 'warning')}" if found else ""
        counts = [counted(n_patterns, "pattern")] if n_patterns or not n_rules else []
        counts += [counted(n_rules, "rule")] if n_rules else []
        print(f"{' and '.join(counts)} in {counted(len(paths), 'file')}: no errors{warned}")
