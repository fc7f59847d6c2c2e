"""`wayeb learn`: pattern files and a history in, a model of each pattern out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.commands.forecasts.chosen_history import HistoryOptions
from wayeb_py.cli.event_files import read_data
from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import AsJson, EventFiles, PatternFiles, Quiet
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces
from wayeb_py.run import startup

if TYPE_CHECKING:
    from wayeb_py.forecast.model import Model


@grouped
@explained()
def learn_models(
    files: PatternFiles,
    data: EventFiles,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that the models are written into.")],
    *,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Learn each value of this column by itself as well.")
    ] = None,
    order: Annotated[
        int | None,
        typer.Option("--order", metavar="N", min=0, help="The longest context that is tried (default: 3 symbols)."),
    ] = None,
    history: HistoryOptions,
    compiling: PatternOptionsWithPlaces,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn from a history how the events of each pattern follow each other, for `wayeb forecast`."""
    patterns = history.patterns(files, compiling)
    paths = read_data(patterns, data)
    startup.spare_pandas()
    from wayeb_py.run.forecasts import learn

    models, summary = learn(patterns, paths, out, order=order, by=by, **history.period(patterns))
    if as_json:
        print(json.dumps([told_of(model) for model in models], ensure_ascii=False, indent=2))
    elif not quiet:
        print(f"{summary.events:,} events of {summary.entities:,} entities", file=sys.stderr)
        for model in models:
            print(render(model), file=sys.stderr)


def told_of(model: Model) -> dict[str, object]:
    """What `learn` chose for a model, as plain values."""
    return {
        "pattern": model.automaton.name,
        "order": model.choice.order,
        "log_loss_by_order": list(model.choice.losses),
        "contexts": len(model.choice.contexts),
        "states": model.automaton.n_states,
        "nodes": len(model.nodes()),
        "matches": sum(model.counts.matches.values()),
        "matches_within_window": sum(n for (_, within), n in model.counts.matches.items() if within),
        "classes": [class_ for class_ in model.counts.classes if class_] if model.by else [],
    }


def render(model: Model) -> str:
    """What `learn` chose for a model, in a few lines."""
    told = told_of(model)
    sizes = f"{told['states']:,} states, {told['contexts']:,} contexts, {told['nodes']:,} nodes of both"
    lines = [f"{model.automaton.name}: {told['matches']:,} matches, {sizes}"]
    losses = [loss for loss in model.choice.losses if loss is not None]
    if losses:
        tried = ", ".join(f"{order}: {loss:.4f}" for order, loss in enumerate(model.choice.losses) if loss is not None)
        lines.append(f"  order {model.choice.order}, by the log loss of entities left out ({tried})")
    else:
        lines.append(f"  order {model.choice.order}: there are too few entities to leave some out and compare orders")
    if model.automaton.detects_more:
        lines.append(
            f"  {told['matches_within_window']:,} of its matches were detected: forecasts take this share of each "
            "state's matches as detections"
        )
    return "\n".join(lines)
