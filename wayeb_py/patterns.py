"""Compiled patterns as users hold them: each method calls the layer that does the work.

The engine and its parts take `CompiledPatterns`, and know nothing of this class.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from wayeb_py.compiler.patterns import CompiledPatterns, Listener
from wayeb_py.errors import UsageError

if TYPE_CHECKING:
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.engine.rows.detections import Detections
    from wayeb_py.forecast.operator import ForecastOperator


class Patterns(CompiledPatterns):
    """The patterns of one or several files, compiled."""

    # Reading and checking patterns loads no compiled kernels: the code that recognises is imported at its first use.

    def recognise(self, events: Any = None, workers: int = 1) -> Detections:
        """All detections and episodes in a table; events that are not in the order of time are sorted first.

        Rules over files of facts alone need no events.
        """
        from wayeb_py.run.whole_table import recognise  # for start-up time
        from wayeb_py.traced_detections import TracedDetections  # for start-up time

        return TracedDetections(recognise(self, events, workers), self, events)

    def on(self, name: str, function: Listener) -> Patterns:
        """Calls a function with each detection of a pattern or a rule, as a row, in the order of decision.

        Every recognition with these patterns calls it: `recognise` once all is found, a `Recogniser` at each batch.
        """
        known = (*self.names, *self.rule_names)
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
            raise UsageError(f"no pattern or rule is called `{name}`", hint=hint)
        self.listeners.setdefault(name, []).append(function)
        return self

    def recogniser(self, **options: Any) -> Recogniser:
        """A recogniser of these patterns, to be fed batch by batch; the options are those of `Recogniser`."""
        from wayeb_py.engine.recogniser import Recogniser  # for start-up time

        return Recogniser(self, **options)

    def forecaster(
        self,
        model: str | os.PathLike[str],
        horizon: str,
        *,
        confidence: float = 0.7,
        at_least: float = 0.0,
        order: Literal["arrival", "sorted"] = "arrival",
    ) -> ForecastOperator:
        """Says at each event that it is fed how likely the patterns are detected within the horizon (`30min`, `10
        events`), by the models in the folder that `wayeb learn` wrote."""
        from wayeb_py.forecast.operator import ForecastOperator  # for start-up time
        from wayeb_py.forecast.tables import Horizon  # for start-up time
        from wayeb_py.run.forecasts import load_tables  # for start-up time

        tables = load_tables(self, model, [(name, Horizon.parse(horizon), confidence) for name in self.names])
        return ForecastOperator(self, tables, at_least=at_least, order=order)

    def step(self, events: Any, state: bytes = b"") -> tuple[Detections, bytes]:
        """The detections of a batch that continues from a state, and the state after it; no state is the beginning.

        What `Recogniser` does, without anything that lives between two batches: for a caller that keeps the state
        itself.
        """
        recogniser = self.recogniser(saved=state or None)
        return recogniser.feed(events), recogniser.save()

    def explain(self, pattern: str | None = None, form: Literal["table", "dot", "mermaid"] = "table") -> str:
        """What the patterns and rules, or one of them, are compiled to, as text: letters, symbols, automaton, cost; for
        a rule its tier, its plan, how long it keeps rows and why."""
        from wayeb_py.explained_plans.file_text import explain_file  # for start-up time

        return explain_file(self, pattern, form)

    def _repr_html_(self) -> str:
        from wayeb_py.engine.rows.detections import html_table  # for start-up time

        return html_table(
            f"{len(self.compiled)} patterns",
            ["pattern", "expression", "states"],
            [
                [pattern.name, pattern.text, compiled.tracker.n_states if compiled.tracker else "–"]
                for pattern, compiled in zip(self.meaning.patterns, self.compiled, strict=True)
            ],
        )


compile_patterns = Patterns.from_source
