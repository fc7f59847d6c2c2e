"""Two automata become one: the pairs of their states that a word can reach."""

from __future__ import annotations

from wayeb_py.kernels.compiled import i32, i64, kernel


@kernel(i64(i64[:, ::1], i64[:, ::1], i64[::1], i64[::1], i32[::1], i64[:, ::1], i64[:, ::1]))
def walk_product(left, right, left_symbol, right_symbol, number_of, pairs, next_state):  # type: ignore[no-untyped-def]
    """Numbers the reachable pairs of states of two automata that read the same events, from (0, 0).

    number_of[left state * n_right + right state] must be -1 everywhere. Returns their number, or -1 if `pairs` is too
    short.
    """
    n_right = right.shape[0]
    n_symbols = left_symbol.shape[0]
    room = pairs.shape[0]
    number_of[0] = 0
    pairs[0, 0] = 0
    pairs[0, 1] = 0
    n = 1
    at = 0
    while at < n:
        for symbol in range(n_symbols):
            l = left[pairs[at, 0], left_symbol[symbol]]  # noqa: E741
            r = right[pairs[at, 1], right_symbol[symbol]]
            number = number_of[l * n_right + r]
            if number < 0:
                if n == room:
                    return -1
                number = n
                number_of[l * n_right + r] = n
                pairs[n, 0] = l
                pairs[n, 1] = r
                n += 1
            next_state[at, symbol] = number
        at += 1
    return n
