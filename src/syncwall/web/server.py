"""The application on a socket, until somebody ends it.

Holds `served`.
"""

import signal
import socket
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from syncwall.web.application import Options, application
from syncwall.web.streams import Streams


def served(options: Options, listening: socket.socket) -> None:
    """Answer on `listening` until Ctrl-C or SIGTERM."""
    streams = Streams()
    config = uvicorn.Config(
        application(options, streams), log_level="warning", access_log=False, server_header=False,
        limit_concurrency=500, timeout_keep_alive=20, h11_max_incomplete_event_size=64 * 1024,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that both end alike
    with suppress(KeyboardInterrupt):
        _Server(config, streams).run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that does not wait for searches when it is told to end."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> Any:
        """End the searches, then everything."""
        self._streams.close()
        super().handle_exit(sig, frame)
