"""Visitors who mean harm on `syncwall serve`: a real server that may have 1,024 descriptors."""

import asyncio
import json
import os
import resource
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.scale.serve import Connection, serving

DESCRIPTORS = 1024
ELSEWHERE = "127.0.0.2"
"""Where those who mean harm come from."""
LOT = 20
"""Connections that come at once, ten times a second."""
MAX_BODY_BYTES = 256 * 1024
RUN = b'{"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4}'
STATIC = b"GET /static/plotly.js HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
_SIZES = {"layers": 1700, "hidden": 64, "vocab": 100, "mlp": {"hidden": 128}}
_MODEL = {"name": "deep", "attention": {"heads": 8}, **_SIZES}
_TRACED = json.dumps({"model": _MODEL, "cluster": "dgx-h100", "nodes": 8, "seq": 128}).encode()
TRACE = (
    b"POST /api/export/perfetto HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(_TRACED)
) + _TRACED


def filled(before: str, one: str, after: str) -> bytes:
    """A body of nearly 256 KiB in which `one` stands as often as it can."""
    room = MAX_BODY_BYTES - len(before) - len(after)
    return (before + one * (room // len(one.encode()) - 1) + one.rstrip(",") + after).encode()


def joined(before: str, parts: list[str], after: str) -> bytes:
    return (before + ",".join(parts) + after).encode()


_START = '{"model": "llama-3.1-8b", "cluster": "dgx-h100", '
_LAYOUT, _ORDER = _START + '"layout": {', _START + '"layout": {"order": ['
_ODD_KEYS = {f"{n}" + "\x01" * 390: [0] * 9 for n in range(100)}
BODIES = {
    "zeros in a layout": filled('{"layout": {"a": [', "0,", "]}}"),
    "zeros in a run": filled(_ORDER, "0,", "]}}"),
    "lists in a layout": filled(_ORDER, "[],", "]}}"),
    "objects in a model": filled('{"cluster": "dgx-h100", "model": {"a": [', "{},", "]}}"),
    "a long key": filled(_START + '"layout": {"', "k", '": 1}}'),
    "a long unknown key": filled(_START + '"', "k", '": 1}'),
    "a long text": filled(_START + '"layout": {"shard": "', "é", '"}}'),
    "a long name": filled('{"cluster": "dgx-h100", "model": "', "m", '"}'),
    "long numbers": filled(_ORDER, "9" * 4000 + ",", "]}}"),
    "escapes": filled(_START + '"layout": {"shard": "', "\\u0001", '"}}'),
    "not an object": filled("[", "1,", "]"),
    "lists in lists": filled("", "[", ""),
    "unknown keys": joined(_LAYOUT, [f'"{n:05}": 1' for n in range(20_000)], "}}"),
    "as many as may be": joined(_ORDER, ["0"] * 1901, "]}}"),
    "as many keys as may be": joined(_LAYOUT, [f'"{"k" * 100}{n}": 1' for n in range(900)], "}}"),
    "keys that are hard to write": json.dumps({**json.loads(RUN), "layout": _ODD_KEYS}).encode(),
}
"""What is hard to check, or to say what is wrong with it."""


@dataclass
class Seen:
    answered_s: list[float] = field(default_factory=list)
    """What those who came meanwhile waited for a page and a prediction."""
    failed: int = 0
    closed_s: float = 0.0
    """When the last connection was closed by the server."""
    left: int = 0
    rss_bytes: int = 0


def rss_bytes(pid: int) -> int:
    """Memory of the server itself, without its workers."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def opened(port: int, said: bytes) -> socket.socket:
    """A connection on which `said` was sent, with little room for an answer."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(5)
    one.bind((ELSEWHERE, 0))
    one.connect(("127.0.0.1", port))
    with suppress(ConnectionError):
        one.sendall(said)
    return one


def is_closed(one: socket.socket) -> bool:
    """True if the server has let go of it, whether or not all that came was read."""
    state = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED


async def crowd(pid: int, port: int, count: int, said: bytes, most_s: float) -> Seen:
    """`count` connections that send `said` and nothing more, until all are closed."""
    seen, begun = Seen(), time.monotonic()
    many: list[socket.socket] = []
    while len(many) < count:
        many += await asyncio.to_thread(lambda: [opened(port, said) for _ in range(LOT)])
        await asyncio.sleep(0.1)
    while many and time.monotonic() - begun < most_s:
        await newcomer(port, seen)
        seen.rss_bytes = max(seen.rss_bytes, rss_bytes(pid))
        for one in [one for one in many if is_closed(one)]:
            many.remove(one)
            one.close()
        seen.closed_s = time.monotonic() - begun
        await asyncio.sleep(0.5)
    seen.left = len(many)
    for one in many:
        one.close()
    return seen


async def newcomer(port: int, seen: Seen) -> None:
    line, before = Connection("127.0.0.1", port), time.monotonic()
    try:
        async with asyncio.timeout(10):
            page, answer = await line.ask("/"), await line.ask("/api/predict", RUN)
        seen.failed += (page[0], answer[0]) != (200, 200)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        seen.failed += 1
    seen.answered_s.append(time.monotonic() - before)
    line.close()


def told(what: str, seen: Seen, at_most_s: float) -> bool:
    slowest = max(seen.answered_s)
    print(
        f"{what}: slowest of {len(seen.answered_s)} newcomers {slowest:.2f} s, "
        f"failed {seen.failed}; closed after {seen.closed_s:.1f} s, still open {seen.left}; "
        f"server at most {seen.rss_bytes / 1e6:.0f} MB"
    )
    return slowest < 1.0 and not seen.failed and not seen.left and seen.closed_s < at_most_s


async def measured(pid: int, port: int) -> bool:
    await newcomer(port, Seen())  # waits until it has started
    before = rss_bytes(pid)
    print(f"at the start: server {before / 1e6:.0f} MB")
    good = told("1,000 silent", await crowd(pid, port, 1000, b"", 60), 20)
    good &= told("1,000 not reading", await crowd(pid, port, 1000, STATIC, 90), 45)
    large = await crowd(pid, port, 20, TRACE, 150)
    good &= told("20 not reading 15 MB", large, 120) and large.rss_bytes < before + 300e6
    schedule = Path(f"/proc/{pid}/schedstat")  # what the server itself has computed
    for name, body in BODIES.items():
        line = Connection("127.0.0.1", port)
        await line.ask("/")
        began_ns = int(schedule.read_text().split()[0])
        status, answer = await line.ask("/api/predict", body)
        busy_s = (int(schedule.read_text().split()[0]) - began_ns) / 1e9
        line.close()
        print(f"{name}: busy for {1e3 * busy_s:.0f} ms, status {status}, {len(answer):,} bytes")
        good &= busy_s < 0.1 and status in (400, 422) and len(answer) < 64 * 1024
    return good


def connections() -> int:
    """Visitors who mean harm: silent ones, such that do not read, bodies that are hard to check.

    First 1,000 connections say nothing, then 1,000 ask for something large and do not read it, then
    20 ask for the largest answers and do not read those; meanwhile somebody new comes twice a
    second. At last bodies of 256 KiB. What is told: how long those who are new wait, when
    connections are closed, how much memory the server takes, how long it is busy with one body, and
    what it writes to its log.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as errors, serving(stderr=errors, preexec_fn=limited) as (pid, port):
            good = asyncio.run(measured(pid, port))
        print(f"log: {log.stat().st_size:,} bytes")
        good &= log.stat().st_size == 0
    print(f"{os.cpu_count()} cores; {'as it should be' if good else 'NOT as it should be'}")
    return int(not good)
