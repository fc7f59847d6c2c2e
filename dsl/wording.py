"""How a message quotes the user's text, and how it guesses at a misspelt name."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence


def shown(text: str, limit: int = 40) -> str:
    """A piece of the user's text, on one line and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def counted(number: int, one: str, several: str | None = None) -> str:
    """`1 task`, `2 tasks`, `3 entities`."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def close_to(word: str, candidates: Sequence[str]) -> str | None:
    """The candidate that a misspelt name probably means."""
    lowered = {candidate.lower(): candidate for candidate in candidates}
    if word.lower() in lowered:
        return lowered[word.lower()]
    # Comparing is slow, and a name of quite another length is never the one meant.
    near = [name for name in candidates if abs(len(name) - len(word)) <= 1 + len(word) // 3][:500]
    found = difflib.get_close_matches(word, near, n=1, cutoff=0.7)
    return found[0] if found else None


def did_you_mean(word: str, candidates: Sequence[str]) -> str | None:
    """The hint that names the likely candidate."""
    found = close_to(word, candidates)
    if found is None:
        return None
    stranger = next((c for c in word if not c.isascii() and c not in found), None)
    if stranger is not None and found.isascii():
        # Letters of another script look the same, and so would the two names.
        return f"did you mean `{found}`? Here `{stranger}` is {unicodedata.name(stranger, 'another letter').lower()}"
    return f"did you mean `{found}`?"
