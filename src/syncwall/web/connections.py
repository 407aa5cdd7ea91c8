"""Connections: how long one may wait, how many there may be, how much may be unsent.

Holds `Connection`, one of uvicorn's with its times, and `Room`, all of them. Nobody who sends
nothing, sends slowly or does not read keeps others out: such connections are closed, sooner if
there are many, and those that have waited longest go first.
"""

import socket
import struct
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_S: Final = 10.0
"""Seconds in which the whole head of a request must have come."""
WRITE_S: Final = 30.0
"""Seconds in which a visitor must have taken something of what is sent."""
TAKEN_BYTES: Final = 1_000_000
"""What counts as something, if it is not everything."""
UNSENT_BYTES: Final = 60_000_000
"""What may wait to be sent, to all visitors together."""
MOST: Final = 1500
_OTHERS: Final = 256
"""Descriptors that are kept for other things than connections."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Room:
    """All open connections: at most `most`, half of them from one address.

    That is enough for a proxy, behind which all visitors have one address.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Connection, None] = {}  # who was answered last comes last
        self._from: Counter[str] = Counter()

    def enter(self, one: "Connection") -> bool:
        """Let `one` in, in the place of another if it must be; False if nobody can leave."""
        if self._from[one.address] >= max(self._most // 2, 1):
            full = not self._pushed_out(one.address)
        else:
            full = len(self._open) >= self._most and not self._pushed_out()
        if not full:
            self._open[one] = None
            self._from[one.address] += 1
        return not full

    def leave(self, one: "Connection") -> None:
        """Forget `one`."""
        if one in self._open:
            del self._open[one]
            self._from[one.address] -= 1
            if not self._from[one.address]:
                del self._from[one.address]

    def answered(self, one: "Connection") -> None:
        """`one` has just been answered: others leave before it."""
        if one in self._open:
            del self._open[one]
            self._open[one] = None

    def look(self, now_s: float) -> None:
        """Close what has waited too long."""
        for one in [one for one in self._open if one.is_overdue(now_s)]:
            one.drop()

    def limit_unsent(self) -> None:
        """Close connections that do not read, while too much waits to be sent."""
        unsent = {one: one.unsent_bytes for one in self._open if one.unsent_bytes}
        total = sum(unsent.values())
        for one in sorted(unsent, key=lambda one: one.since_s):
            if total <= UNSENT_BYTES:
                return
            total -= unsent[one]
            one.drop()

    def _pushed_out(self, address: str | None = None) -> bool:
        """Close the connection that has waited for its visitor longest."""
        waiting = (one for one in self._open if one.waits and address in (None, one.address))
        found = next(waiting, None)
        if found is not None:
            found.drop()
        return found is not None


class Connection(H11Protocol):
    """One connection; it leaves its room when it is dropped."""

    def __init__(self, *given: Any, room: Room, **named: Any) -> None:
        super().__init__(*given, **named)
        self._room = room
        self._unsent_bytes = 0
        self.since_s = 0.0
        """When the visitor last did what it should."""
        self.address = ""

    @property
    def unsent_bytes(self) -> int:
        """What the visitor has not taken yet."""
        return int(self.transport.get_write_buffer_size())

    @property
    def _is_asked(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # None before the first request

    @property
    def waits(self) -> bool:
        """True if it is the visitor's turn: to ask, to send the rest of a body, or to read."""
        return not self._is_asked or self.cycle.more_body or self.unsent_bytes > 0

    def is_overdue(self, now_s: float) -> bool:
        """True if the visitor has not done in time what it should."""
        unsent = self.unsent_bytes
        if bool(unsent) != bool(self._unsent_bytes) or self._unsent_bytes - unsent >= TAKEN_BYTES:
            self._unsent_bytes, self.since_s = unsent, now_s
        self._unsent_bytes = max(self._unsent_bytes, unsent)
        waited_s = now_s - self.since_s
        return waited_s > WRITE_S if unsent else not self._is_asked and waited_s > IDLE_S

    def drop(self) -> None:
        """Close it now; what is unsent goes nowhere, or the system would keep it for minutes."""
        self._room.leave(self)
        if self._is_asked:
            self.cycle.disconnected = True  # so that no more is written to it
        if self.unsent_bytes:
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """A visitor comes."""
        super().connection_made(transport)
        self.since_s = self.loop.time()
        self.address = self.client[0] if self.client else ""
        if not self._room.enter(self):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by whomever."""
        self._room.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The answer is on its way; the next request may come."""
        self.since_s = self.loop.time()
        self._room.answered(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """More waits to be sent than the visitor takes."""
        super().pause_writing()
        self._room.limit_unsent()

    def resume_writing(self) -> None:
        """The visitor has taken nearly all."""
        self.since_s = self.loop.time()
        super().resume_writing()


def most_connections() -> int:
    """As many as the descriptors of this process allow: a connection and a file that is sent."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MOST
    descriptors, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST + _OTHERS
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if 0 <= descriptors < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return max((wanted - _OTHERS) // 2, 16)
