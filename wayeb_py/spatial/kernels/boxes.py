"""The walk of a tree of boxes: a question becomes the leaves whose boxes it hits.

*Not taken*: a stack that holds the number of a node alone; a node does not know its level.
"""

from __future__ import annotations

from typing import NamedTuple

from wayeb_py.kernels.compiled import inlined, subroutine
from wayeb_py.kernels.structs import I64, Matrix

STACK = 256  # nodes that wait to be looked at: (level, number in the level)


class TreeBoxes(NamedTuple):
    """The boxes of a tree over things in their order: `leaf` things a leaf, two nodes below a node, leaves first."""

    corners: Matrix  # [level_first[level] + number in the level] = (low corner, high corner)
    level_first: I64
    leaf: int


@subroutine
def box_square(qx, qy, qz, corners, node):  # type: ignore[no-untyped-def]
    """The square of the distance through space from q to a node's box."""
    dx = max(corners[node, 0] - qx, 0.0, qx - corners[node, 3])
    dy = max(corners[node, 1] - qy, 0.0, qy - corners[node, 4])
    dz = max(corners[node, 2] - qz, 0.0, qz - corners[node, 5])
    return dx * dx + dy * dy + dz * dz


@subroutine
def is_beyond(ball, corners, node):  # type: ignore[no-untyped-def]
    """Whether a ball, (x, y, z, radius), misses a node's box."""
    return box_square(ball[0], ball[1], ball[2], corners, node) > ball[3] * ball[3]


@inlined
def begin_walk(boxes, stack):  # type: ignore[no-untyped-def]
    """Puts the root on the stack; returns the stack's top."""
    stack[0, 0], stack[0, 1] = boxes.level_first.shape[0] - 2, 0
    return 0


@inlined
def next_leaf(misses, question, boxes, stack, top):  # type: ignore[no-untyped-def]
    """The number of the next leaf for which misses(question, corners, node) is false, as for all nodes above it; or -1.

    Also the stack's top after it, and how many nodes the search looked at.
    """
    leaf, n_steps = -1, 0
    while top >= 0 and leaf < 0:
        level, nth = stack[top, 0], stack[top, 1]
        top -= 1
        n_steps += 1
        if misses(question, boxes.corners, boxes.level_first[level] + nth):
            continue
        if level == 0:
            leaf = nth
        else:
            for node in (2 * nth, 2 * nth + 1):
                if boxes.level_first[level - 1] + node < boxes.level_first[level]:
                    top += 1
                    stack[top, 0], stack[top, 1] = level - 1, node
    return leaf, top, n_steps
