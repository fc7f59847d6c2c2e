"""The two constraints of the Train Benchmark as rules of CLIPS, by clipspy: one fact for each tie, one firing a match.

CLIPS's own reader reads the facts from a file that is written before the clock starts. Patterns stand in the order of
the chain that they form, so that each joins the previous one by an equal value, which CLIPS looks up by a hash.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.inputs.railway_constraints import Ties

RULES = {
    "RouteSensor": """
(defrule RouteSensor
    (follows (start ?route) (end ?position)) (target (start ?position) (end ?switch))
    (monitoredBy (start ?switch) (end ?sensor)) (not (requires (start ?route) (end ?sensor)))
    => (bind ?*found* (+ ?*found* 1)))""",
    "SemaphoreNeighbor": """
(defrule SemaphoreNeighbor
    (exit (start ?route) (end ?semaphore)) (requires (start ?route) (end ?sensor))
    (monitoredBy (start ?track) (end ?sensor)) (connectsTo (start ?track) (end ?next))
    (monitoredBy (start ?next) (end ?other)) (requires (start ?after&~?route) (end ?other))
    (not (entry (start ?after) (end ?semaphore)))
    => (bind ?*found* (+ ?*found* 1)))""",
}


def write_facts(ties: Ties, labels: tuple[str, ...], file: Path) -> None:
    """The ties as facts, in the order of the tables."""
    with file.open("w") as out:
        for label in labels:
            for start, end in zip(ties[label]["start"].tolist(), ties[label]["end"].tolist(), strict=True):
                out.write(f"({label} (start {start}) (end {end}))\n")


def load_and_check(constraint: str, labels: tuple[str, ...], facts: Path) -> int:
    """How often the rule fires after CLIPS has taken in the facts."""
    import clips

    environment = clips.Environment()
    environment.build("(defglobal ?*found* = 0)")
    for label in labels:
        environment.build(f"(deftemplate {label} (slot start (type INTEGER)) (slot end (type INTEGER)))")
    environment.build(RULES[constraint])
    environment.reset()
    environment.load_facts(str(facts))
    n_fired: int = environment.run()
    return n_fired
