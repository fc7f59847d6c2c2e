"""`wayeb explain`: pattern files in, the automata and plans that they compile to out, and what the plans cost."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.event_files import read_data
from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import ForcedPlans, PatternFiles
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns
from wayeb_py.cli.plan_option import ALONE

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns


class ExplainForm(StrEnum):
    """How an automaton or a plan is shown."""

    TABLE = "table"
    DOT = "dot"
    MERMAID = "mermaid"


@grouped
@explained()
def show_automata(
    files: PatternFiles,
    pattern: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pattern or rule.")] = None,
    form: Annotated[
        ExplainForm, typer.Option("--format", "--form", help="A readable table, or a picture's source.")
    ] = ExplainForm.TABLE,
    *,
    plan: ForcedPlans = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="[STREAM=]PATH...", help="Events, as for `wayeb run`: a sample of them tells sizes."
        ),
    ] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the rules over all of --data, and show what each part of a plan did.")
    ] = False,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="NAME=N/TIME...",
            help="How many rows come at most (vessels=1000/s; with those of one key 1000/s,6/min; of what stands 200): "
            "shows what rules keep and do at most.",
        ),
    ] = None,
    compiling: PatternOptionsWithPlaces,
    longest: Annotated[bool, typer.Option("--longest", help="As it is run for the longest matches.")] = False,
) -> None:
    """Show what patterns are compiled to (predicates, minterms, states, cost) and how rules are planned."""
    patterns = compiling.compile(files, longest=longest)
    chosen = select_patterns(patterns, None if pattern is None else [pattern])
    rules = chosen.meaning.rules
    options = (("--plan", plan), ("--analyze", analyze), ("--rate", rate), ("--data", data))
    asked = [name for name, is_given in options if is_given]
    if asked and not rules:
        misuse(f"{asked[0]} is for rules, and there is none{'' if pattern is None else f' in `{pattern}`'}")
    if analyze and rate:
        misuse("--analyze measures events and --rate invents the worst: use one of them")
    from wayeb_py.explained_plans.plans import read_plans

    forced = read_plans([text for text in plan or [] if text != ALONE], [rule.name for rule in rules])
    if analyze:
        if not data and chosen.by_stream:
            misuse("--analyze runs the rules: add --data PATH")
        from wayeb_py.explained_plans.measured_run import analysis_lines, measure

        print("\n".join(analysis_lines(measure(chosen, read_data(chosen, data or []), forced))))
        return
    if rate:
        print("\n\n".join(_costs(chosen, rate, forced)))
        return
    if asked:
        from wayeb_py.explained_plans.file_text import explain_rules

        if data:
            print(explain_rules(chosen, form.value, read_data(chosen, data), forced, pattern))
        else:  # the plan of one rule, with what it shares with the others
            print(explain_rules(patterns, form.value, None, forced, pattern))
    else:
        print(patterns.explain(pattern, form.value))


def _costs(patterns: Patterns, rates: list[str], forced: dict[str, str]) -> Iterator[str]:
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.explained_plans.costs import cost_lines, costs_of
    from wayeb_py.explained_plans.plans import running_of
    from wayeb_py.explained_plans.rates import read_rates
    from wayeb_py.explained_plans.step_cost import measure_step

    given = read_rates(rates, patterns)
    running = running_of(Recogniser(patterns, plans=forced))
    step = measure_step()
    for cost in costs_of(running, patterns, given):
        if cost.planned.rule.name in patterns.rule_names:
            yield "\n".join(cost_lines(cost, step))
