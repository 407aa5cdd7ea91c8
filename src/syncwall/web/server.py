"""The application on a socket, until somebody ends it.

Holds `served`, and `Server`, which is uvicorn's with bounded connections.
"""

import asyncio
import gc
import signal
import socket
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn

from syncwall.web.application import Options, application
from syncwall.web.connections import IDLE_S, Connection, Room, most_connections
from syncwall.web.guard import App
from syncwall.web.streams import Streams

BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""
_ACCEPTED: Final = 64
"""Connections that are accepted before the first of them is looked at."""
_END_S: Final = 3
"""What visitors may still read when the server ends."""


def served(options: Options, listening: socket.socket) -> None:
    """Answer on `listening` until Ctrl-C or SIGTERM."""
    streams = Streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that both end alike
    server = Server(application(options, streams), streams)
    gc.freeze()  # so that what a visitor sends never makes all that is loaded be looked through
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


class Server(uvicorn.Server):
    """A server of which no visitor takes all, and that does not wait for searches to end."""

    def __init__(self, app: App, streams: Streams, most: int | None = None) -> None:
        self._streams = streams
        self._room = Room(most or most_connections())
        protocol: Any = partial(Connection, room=self._room)
        super().__init__(uvicorn.Config(
            app, http=protocol, ws="none", log_level="error", access_log=False,
            server_header=False, proxy_headers=False, backlog=_ACCEPTED,
            timeout_keep_alive=int(IDLE_S), timeout_graceful_shutdown=_END_S,
            h11_max_incomplete_event_size=64 * 1024,
        ))  # fmt: skip

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: close what has waited too long."""
        self._room.look(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> Any:
        """End the searches, then everything."""
        self._streams.close()
        super().handle_exit(sig, frame)
