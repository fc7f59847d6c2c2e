"""Points become sides of edges: exact in the plane of degrees, whatever rounding would say."""

from __future__ import annotations

from wayeb_py.kernels.compiled import subroutine


@subroutine
def _split(a):  # type: ignore[no-untyped-def]
    wide = 134217729.0 * a
    high = wide - (wide - a)
    return high, a - high


@subroutine
def _difference(a, b):  # type: ignore[no-untyped-def]
    """a - b exactly, as a sum of two."""
    s = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


@subroutine
def _product(a, b):  # type: ignore[no-untyped-def]
    """a * b exactly, as a sum of two."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@subroutine
def _twice_precise_product(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    p, e = _product(ah, bh)
    e += ah * bl + al * bh
    high = p + e
    return high, e - (high - p)


@subroutine
def _careful_side(ax, ay, bx, by, px, py):  # type: ignore[no-untyped-def]
    uxh, uxl = _difference(bx, ax)
    uyh, uyl = _difference(by, ay)
    vxh, vxl = _difference(px, bx)
    vyh, vyl = _difference(py, by)
    lh, ll = _twice_precise_product(uxh, uxl, vyh, vyl)
    rh, rl = _twice_precise_product(uyh, uyl, vxh, vxl)
    high, low = _difference(lh, rh)
    return high + (low + (ll - rl))


@subroutine
def side(ax, ay, bx, by, px, py):  # type: ignore[no-untyped-def]
    """Above 0 where p lies left of the way from a to b, below 0 right of it, 0 on it, whatever rounding would say."""
    left = (bx - ax) * (py - ay)
    right = (by - ay) * (px - ax)
    turn = left - right
    if abs(turn) > 3.3306690738754716e-16 * (abs(left) + abs(right)):
        return turn
    return _careful_side(ax, ay, bx, by, px, py)


@subroutine
def touches(x0, y0, x1, y1, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Whether an edge may run through a rectangle, or along it."""
    if max(ax, bx) < x0 or min(ax, bx) > x1 or max(ay, by) < y0 or min(ay, by) > y1:
        return False
    wide, high = bx - ax, by - ay
    doubt = 1e-14 * (abs(wide) + abs(high)) * (abs(x0) + abs(x1) + abs(y0) + abs(y1) + abs(ax) + abs(ay))
    is_left, is_right = False, False
    for x, y in ((x0, y0), (x1, y0), (x0, y1), (x1, y1)):
        here = wide * (y - ay) - high * (x - ax)
        if here > -doubt:
            is_left = True
        if here < doubt:
            is_right = True
    return is_left and is_right
