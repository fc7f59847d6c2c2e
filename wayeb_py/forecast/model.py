"""What was learnt about one pattern becomes a JSON file that a person can read: counts, and the contexts chosen by
them.

A model belongs to a pattern by its fingerprint: a pattern that means something else has other symbols, and its model is
refused. The counts are kept whole, so that models of parts of a history can be added up and contexts chosen again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wayeb_py.arrays import F64
from wayeb_py.errors import DataError, LimitError
from wayeb_py.files.output.whole_file import make_folder, telling_faults, write_whole
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.chain import MOST_NODES, Nodes, fits, reach_nodes
from wayeb_py.forecast.contexts import Choice, choose, grow_links
from wayeb_py.forecast.counts import Context, Counts

VERSION = 1


@dataclass(frozen=True, slots=True)
class Model:
    """Counts of one pattern, and the contexts that forecasts use of them."""

    automaton: DetectingAutomaton
    counts: Counts
    choice: Choice
    by: str | None = None

    def nodes(self) -> Nodes:
        """The states and contexts of its chain."""
        nodes = reach_nodes(self.automaton, grow_links(self.choice.contexts, self.automaton.n_symbols)[1], MOST_NODES)
        assert nodes is not None
        return nodes

    def detection_of_state(self) -> F64:
        """[state]: how likely a detection is there: 0 or 1, or the share of matches there that were detections.

        A state that the history never reached takes the share of all; where it reached none, all count as detections.
        """
        detects = self.automaton.detects
        if not self.automaton.detects_more:
            return detects.astype(np.float64)
        within = np.array([self.counts.matches[state, True] for state in range(len(detects))], dtype=np.float64)
        beyond = np.array([self.counts.matches[state, False] for state in range(len(detects))], dtype=np.float64)
        n = within + beyond
        of_all = within.sum() / n.sum() if n.sum() else 1.0
        return np.where(detects, np.where(n > 0, within / np.maximum(n, 1), of_all), 0.0)


def fit(automaton: DetectingAutomaton, counts: Counts, by: str | None = None, most_nodes: int = MOST_NODES) -> Model:
    """The model of some counts; LimitError where the pattern's states are too many even without contexts."""
    choice = choose(counts, automaton.n_symbols, lambda contexts: fits(automaton, contexts, most_nodes))
    if choice is None:
        raise LimitError(
            f"the chain of `{automaton.name}` is too large: {automaton.n_states:,} states by {automaton.n_symbols:,} "
            "symbols",
            given=f"more than {most_nodes:,} nodes",
            limit=f"{most_nodes:,} nodes",
            knob="a pattern with smaller bounds or fewer kinds of letters",
        )
    return Model(automaton, counts, choice, by)


def save_model(model: Model, folder: Path) -> Path:
    """Writes the model's file into a folder, which is made if it is not there."""
    path = folder / f"{model.automaton.name}.json"
    with telling_faults(folder):
        make_folder(folder)
    write_whole(path, (_laid_out(to_json(model)) + "\n").encode())
    return path


def load_model(automaton: DetectingAutomaton, folder: Path) -> Model:
    """The model of a pattern in a folder; DataError where there is none, or where it is of another pattern."""
    path = folder / f"{automaton.name}.json"
    learn = "learn it: `wayeb learn FILE --data HISTORY --out " + f"{folder}`"
    if not path.is_file():
        raise DataError(f"there is no model of `{automaton.name}`", str(path), hint=learn)
    try:
        told = json.loads(path.read_bytes())
        version = told["version"]
        if version == VERSION and told["fingerprint"] == automaton.fingerprint:
            return from_json(told, automaton)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"this is no model that `wayeb learn` wrote: {error}", str(path), hint=learn) from error
    if version != VERSION:
        raise DataError(f"the model is of version {version}, and this reads version {VERSION}", str(path), hint=learn)
    raise DataError(
        f"the model was learnt for another `{automaton.name}`: the pattern has changed since, and so have its symbols",
        str(path),
        hint=learn,
    )


def to_json(model: Model) -> dict[str, Any]:
    """The model as plain values; counts in an order that does not depend on that of the events."""
    automaton, counts, choice = model.automaton, model.counts, model.choice
    follows: dict[tuple[str, int, Context], dict[int, int]] = defaultdict(dict)
    for (class_, fold, context, symbol), n in counts.follows.items():
        follows[class_, fold, context][symbol] = n
    gaps: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for (class_, before, symbol, bin_), n in counts.gaps.items():
        gaps[class_, before, symbol][bin_] = n
    return {
        "version": VERSION,
        "pattern": automaton.name,
        "fingerprint": automaton.fingerprint,
        "by": model.by,
        "symbols": automaton.symbol_texts(),
        "longest_order": counts.order,
        "events": counts.n_events,
        "words": counts.n_words,
        "entities": [counts.entities[fold] for fold in range(max(counts.entities, default=-1) + 1)],
        "order": choice.order,
        "log_loss_by_order": list(choice.losses),
        "contexts": [list(context) for context in choice.contexts],
        "matches": [[state, within, n] for (state, within), n in sorted(counts.matches.items())],
        "follows": [
            [class_, fold, list(context), _pairs(own)] for (class_, fold, context), own in sorted(follows.items())
        ],
        "ends": [[class_, fold, list(context), n] for (class_, fold, context), n in sorted(counts.ends.items())],
        "gaps": [[class_, before, symbol, _pairs(own)] for (class_, before, symbol), own in sorted(gaps.items())],
    }


def from_json(told: dict[str, Any], automaton: DetectingAutomaton) -> Model:
    """The model that `to_json` gave."""
    counts = Counts(int(told["longest_order"]), n_words=int(told["words"]))
    for class_, fold, context, own in told["follows"]:
        counts.follows.update({(class_, fold, tuple(context), symbol): n for symbol, n in own})
    for class_, fold, context, n in told["ends"]:
        counts.ends[class_, fold, tuple(context)] = n
    for class_, before, symbol, own in told["gaps"]:
        counts.gaps.update({(class_, before, symbol, bin_): n for bin_, n in own})
    counts.matches = Counter({(state, bool(within)): n for state, within, n in told["matches"]})
    counts.entities = Counter({fold: n for fold, n in enumerate(told["entities"]) if n})
    contexts = tuple(tuple(context) for context in told["contexts"])
    return Model(automaton, counts, Choice(told["order"], tuple(told["log_loss_by_order"]), contexts), told["by"])


def _pairs(own: dict[int, int]) -> list[list[int]]:
    return [[key, n] for key, n in sorted(own.items())]


def _laid_out(told: dict[str, Any]) -> str:
    """The JSON text: a line for each fact, and a line for each entry of a long list."""
    lines = []
    for name, value in told.items():
        if isinstance(value, list) and value and isinstance(value[0], list | str):
            inside = ",\n    ".join(json.dumps(one, ensure_ascii=False) for one in value)
            lines.append(f"  {json.dumps(name)}: [\n    {inside}\n  ]")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}"
