"""`wayeb test`: pattern files in, their failing examples out."""

from __future__ import annotations

import json
import sys

from wayeb_py.cli.diagnostics import as_json_object
from wayeb_py.cli.exit_codes import PATTERN_FAULT, explained
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import AsJson, PatternFolders, Quiet, Strict
from wayeb_py.cli.pattern_options import PatternOptions, show_warnings
from wayeb_py.dsl.wording import counted
from wayeb_py.errors import Diagnostic
from wayeb_py.run import startup


@grouped
@explained()
def run_examples_of_files(
    files: PatternFolders,
    *,
    compiling: PatternOptions,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the examples that pattern files carry with themselves."""
    from wayeb_py.cli.pattern_files import find_whole_files
    from wayeb_py.run.examples import run_examples

    failures: list[Diagnostic] = []
    n_examples = 0
    startup.spare_pandas()
    startup.spare_cffi()
    for path in find_whole_files(files):
        patterns = compiling.compile([path])
        show_warnings(patterns, strict, in_order=True)
        for outcome in run_examples(patterns):
            n_examples += 1
            if outcome.fault is not None:
                failures.append(outcome.fault)
    if as_json:
        report = {"examples": n_examples, "failed": [as_json_object(failure) for failure in failures]}
        print(json.dumps(report, ensure_ascii=False, indent=2))
    elif failures:
        print("\n\n".join(failure.render() for failure in failures), file=sys.stderr)
    if not quiet and not as_json:
        print(f"{counted(n_examples, 'example')}, {len(failures)} failed")
    if failures:
        raise SystemExit(PATTERN_FAULT)
