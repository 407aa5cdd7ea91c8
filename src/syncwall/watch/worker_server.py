"""Where a silent rank stands, by torch's own worker server, if its program has started one.

Holds `stands_at`. The server (`torch.distributed.elastic.control_plane.worker_main`, socket named
by TORCH_WORKER_SERVER_SOCKET) is a thread in C++: it answers while Python does not.
"""

import http.client
import json
import re
import socket
from contextlib import suppress
from typing import Any, Final

_LIMIT_S: Final = 1.0
_THREAD: Final = re.compile(r"^(?:Current t|T)hread .*$", re.MULTILINE)
_FRAME: Final = re.compile(r'File "(.+?)", line (\d+) in (\S+)')
_LIBRARIES: Final = re.compile(r"site-packages|dist-packages|/lib/python3|^<")


def stands_at(server: str) -> str:
    """The innermost line of the user's own, and the latest collective; empty if nobody answers."""
    found = []
    with suppress(OSError, ValueError, KeyError, http.client.HTTPException):
        found += _line(_asked(server, "dump_traceback").decode(errors="replace"))
        found += _collective(json.loads(_asked(server, "fr_trace_json")))
    return ", ".join(found)


def _asked(server: str, handler: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(_LIMIT_S)
        channel.connect(server)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = channel
        connection.request("POST", f"/handler/{handler}")
        return connection.getresponse().read()


def _line(dump: str) -> list[str]:
    """Of the last thread of a dump, which is the main one; frames come innermost first."""
    frames = _FRAME.findall(_THREAD.split(dump)[-1])
    own = [one for one in frames if not _LIBRARIES.search(one[0])]
    return [f"{file}:{line} in {function}" for file, line, function in own[:1]]


def _collective(trace: dict[str, Any]) -> list[str]:
    """The latest entry of the flight recorder."""
    entries = trace.get("entries") or []
    return [f"{one['profiling_name']} {one['state']}" for one in entries[-1:]]
