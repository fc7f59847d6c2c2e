"""How many connections a port takes, and when one ends that is not used any more.

A process has a limited number of descriptors, and needs some for its files: a port leaves it those. A connection whose
other end vanished without a word (no power, no cable) ends after a minute, and does not wait for ever: the system asks
the other end when it has been quiet.

*Not taken*: a time after which silence alone ends a connection. A receiver at a quiet coast may have nothing to send.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
from collections.abc import Callable

from wayeb_py.clock import SYSTEM
from wayeb_py.errors import DataError

QUIET_S, AGAIN_S, MOST_ASKED = 30, 10, 3

RECEIVED_SHARE, VIEWERS_SHARE = 2, 4  # one in two descriptors is for senders of a source, one in four for viewers
SAY_EVERY_S = 60.0


def most_connections(share: int) -> int:
    """How many connections a port takes at a time, as one in `share` of the descriptors that the process may have."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if most == resource.RLIM_INFINITY else max(1, most // share)


def refuse_many(n_open: int, most: int) -> None:
    """Raises what the system would if it had no descriptor left, as long as there is no room for another one."""
    if n_open >= most:
        raise OSError(errno.EMFILE, f"{n_open} are open, and some files have to be")


class Refusal:
    """Says that a port takes no more for now, at most once a minute: those who wait come one by one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said_s = say, -SAY_EVERY_S

    def tell(self, name: str, error: OSError) -> None:
        """Says it, with the reason."""
        now_s = SYSTEM.steady_s()
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            self._say(f"{name} takes no more connections for now: {error.strerror or error}")


def notice_vanished(connection: socket.socket) -> None:
    """Makes the system ask a quiet other end whether it is there; without an answer the connection ends."""
    if connection.family == socket.AF_UNIX:  # the system knows
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", QUIET_S), ("TCP_KEEPINTVL", AGAIN_S), ("TCP_KEEPCNT", MOST_ASKED)):
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def has_vanished(connection: socket.socket) -> bool:
    """Whether the system has found that the other end is not there. An end that has only stopped to send still is."""
    look = select.poll()
    look.register(connection, 0)  # an error and the end of both directions count in any case
    return bool(look.poll(0))


_REMEDIES = {
    errno.EADDRINUSE: "another process listens there, perhaps a stream that still runs: stop it, or take another port",
    errno.EADDRNOTAVAIL: "this machine has no such address: 0.0.0.0 means all that it has, and ?connect calls another",
    errno.EACCES: "only root may: take a port from 1024 on, or a folder of your own",
    errno.ENOENT: "make the folder first",
}


def not_bound(error: OSError, text: str) -> DataError:
    """That nothing can listen at an address, and what to do."""
    hint = _REMEDIES.get(error.errno or 0)
    return DataError(f"cannot listen there: {error.strerror or error}", text, hint=hint)
