"""The text of one declaration, which knows where it stands in its file: spans need no shifting afterwards."""

from __future__ import annotations

from wayeb_py.dsl.syntax.lexicon import Token, next_token


class Piece(str):
    """The text of one declaration, and its place in the whole text."""

    whole: str
    base: int

    @classmethod
    def cut(cls, whole: str, start: int, end: int) -> Piece:
        """The piece from start to end."""
        piece = cls(whole[start:end])
        piece.whole, piece.base = whole, start
        return piece

    def token_at(self, loc: int) -> Token:
        """The token that follows an offset within the piece."""
        return next_token(self.whole, self.base + loc, self.base + len(self))
