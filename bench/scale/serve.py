"""Many people at once on `syncwall serve`, and visitors who mean harm: a real server on loopback.

Users open the page, then change something once a second; the page asks for the prediction, then for
the timeline and for what to change, and lets go of what has not come when the next change is made:
so does `static/ask.js`. Times are from the first byte sent to the last one received.
"""

import asyncio
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.web.bodies import BODIES, RUN

_LLAMAS = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b")
MODELS = (*_LLAMAS, "gpt3-175b", "gpt-neox-20b", "mixtral-8x7b")
CLUSTERS = ("dgx-h100", "dgx-a100", "dgx-b200", "superpod-h100")
LATER = ("timeline", "next")
"""What the page asks for once it has the prediction."""
EVERY_S, GATHERED_S = 1.0, 0.15
"""Between two changes; and until the page asks for what can wait."""
HOST = "127.0.0.1"
DESCRIPTORS = 1024
ELSEWHERE = "127.0.0.2"
"""Where those who mean harm come from."""
LOT = 20
"""Connections that come at once, ten times a second."""
STATIC = b"GET /static/plotly.js HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
_SIZES = {"layers": 1700, "hidden": 64, "vocab": 100, "mlp": {"hidden": 128}}
_MODEL = {"name": "deep", "attention": {"heads": 8}, **_SIZES}
_TRACED = json.dumps({"model": _MODEL, "cluster": "dgx-h100", "nodes": 8, "seq": 128}).encode()
TRACE = (
    b"POST /api/export/perfetto HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(_TRACED)
) + _TRACED


@dataclass
class Found:
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    errors: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """What nobody waited for any more, because something else was asked."""
    lost: int = 0
    """Requests without any answer."""
    wall_s: float = 0.0
    client_s: float = 0.0
    server_s: float = 0.0

    @property
    def requests(self) -> int:
        return sum(self.statuses.values()) + sum(self.dropped.values()) + self.lost

    def percentile(self, what: str, share: float) -> float:
        times = sorted(self.seconds[what])
        return times[min(int(share * len(times)), len(times) - 1)] if times else 0.0


class Connection:
    """HTTP/1.1 on one socket that stays open."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body; on a connection that the server had closed, asked again on a new one."""
        if self._streams is not None:
            try:
                return await self._asked(path, body)
            except ConnectionError:  # it was idle for too long: so do browsers
                self.close()
        self._streams = await asyncio.open_connection(*self._where)
        return await self._asked(path, body)

    async def _asked(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        assert self._streams is not None
        reader, writer = self._streams
        verb, (host, port) = "GET" if body is None else "POST", self._where
        head = f"{verb} {path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + (body or b""))
        status, length = 0, 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            if not status:
                status = int(line.split()[1])
            elif line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not status:
            raise ConnectionError("the server hung up")
        return status, await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def changing_run(chance: random.Random) -> Iterator[bytes]:
    """A run of which one thing after the other is changed, as with sliders."""
    run: dict[str, Any] = {"model": chance.choice(MODELS), "cluster": chance.choice(CLUSTERS)}
    nodes, batch, before = chance.randrange(8, 1024, 4), chance.randrange(1, 17), b""
    layout: dict[str, Any] = {"tp": 8, "shard": "fsdp"}
    if chance.random() < 0.5:  # the others leave it open, as the page does at first
        layout["micro_batch"] = 1
    words: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("tp", (1, 2, 4, 8)),
        ("shard", ("fsdp", "zero1", "ddp")),
        ("recompute", ("none", "selective", "full")),
    )
    while True:
        what = chance.randrange(7)
        if what == 0:
            run["model"] = chance.choice(MODELS)
        elif what == 1:
            run["cluster"] = chance.choice(CLUSTERS)
        elif what == 2:
            nodes = chance.randrange(8, 2048, 4)
        elif what == 3:
            batch = chance.randrange(1, 33)
        else:
            name, choices = words[what - 4]
            layout[name] = chance.choice(choices)
        asked = {**run, "nodes": nodes, "layout": {**layout, "global_batch": nodes * 8 * batch}}
        body = json.dumps(asked).encode()
        if body != before:
            yield body
        before = body


class Load:
    def __init__(self, port: int, users: int, requests: int, seed: int) -> None:
        self._where, self._seed = (HOST, port), seed
        self._users, self._left = users, requests
        self._later: tuple[str, ...] = LATER
        self.found = Found()

    async def run(self) -> Found:
        first = Connection(*self._where)
        _, document = await first.ask("/api/openapi.json")
        first.close()
        paths = json.loads(document)["paths"]
        self._later = tuple(name for name in LATER if f"/api/{name}" in paths)
        before, client = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._user(number) for number in range(self._users)))
        self.found.wall_s = time.perf_counter() - before
        self.found.client_s = time.process_time() - client
        return self.found

    async def _user(self, number: int) -> None:
        chance = random.Random(self._seed * 1000 + number)
        await asyncio.sleep(chance.random() * EVERY_S)
        line, beside = Connection(*self._where), [Connection(*self._where) for _ in self._later]
        await self._asked(line, "page", "/", None)
        runs, due, rest = changing_run(chance), time.perf_counter(), None
        while self._left > 0:
            body = next(runs)
            if rest is not None:
                rest.cancel()
                await asyncio.wait([rest])
            rest = None
            if await self._asked(line, "predict", "/api/predict", body) == 200:
                rest = asyncio.ensure_future(self._then(beside, body))
            due = max(due + EVERY_S, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
        if rest is not None:
            await rest
        for one in (line, *beside):
            one.close()

    async def _then(self, lines: list[Connection], body: bytes) -> None:
        await asyncio.sleep(GATHERED_S)
        pairs = zip(lines, self._later, strict=True)
        await asyncio.gather(*(self._asked(line, n, f"/api/{n}", body) for line, n in pairs))

    async def _asked(self, line: Connection, what: str, path: str, body: bytes | None) -> int:
        self._left -= 1
        start = time.perf_counter()
        try:
            status, answer = await line.ask(path, body)
        except asyncio.CancelledError:
            self.found.dropped[what] += 1
            line.close()
            raise
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            self.found.errors.append(f"{what}: {error!r}")
            self.found.lost += 1
            line.close()
            return 0
        self.found.seconds[what].append(time.perf_counter() - start)
        self.found.statuses[status] += 1
        if status not in (200, 422):
            self.found.errors.append(f"{what}: status {status}: {answer[:200]!r}")
        return status


@contextmanager
def serving(**how: Any) -> Iterator[tuple[int, int]]:
    """A server of its own, started as `how` says; its process and its port."""
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            yield process.pid, int(said.split("127.0.0.1:")[1].split("/")[0])
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    """Seconds of computing of a process and of all that it started and that still run."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        spent[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def below(number: int) -> bool:
        while number not in (0, pid):
            number = parents.get(number, 0)
        return number == pid

    return sum(seconds for number, seconds in spent.items() if below(number))


def measured(users: int, requests: int, seed: int = 0) -> Found:
    with serving() as (pid, port):
        asyncio.run(Load(port, users, users * 3, seed + 1).run())  # warm
        before = cpu_s(pid)
        found = asyncio.run(Load(port, users, requests, seed).run())
        found.server_s = cpu_s(pid) - before
    return found


def serve(users: int = 50, requests: int = 10_000, seed: int = 0) -> int:
    """Many people at once on `syncwall serve`: times, cores and errors."""
    found = measured(users, requests, seed)
    rate = f"{found.requests / found.wall_s:.0f}/s"
    print(
        f"{users} users, {found.requests:,} requests in {found.wall_s:.1f} s ({rate}), {os.cpu_count()} cores"
    )
    for what, times in found.seconds.items():
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        each = (f"{n} {1e3 * found.percentile(what, s):6.0f} ms" for n, s in shares.items())
        worst = f"worst {1e3 * max(times):6.0f} ms"
        dropped = f"let go {found.dropped.get(what, 0):,}"
        print("   ".join([f"  {what:9} {len(times):6,}", *each, worst, dropped]))
    server, client = found.server_s / found.wall_s, found.client_s / found.wall_s
    print(f"  cores used: server {server:.2f}, client {client:.2f}")
    print(f"  errors {len(found.errors)}, refused as impossible {found.statuses.get(422, 0)}")
    for error in found.errors[:5]:
        print(f"    {error}")
    return int(bool(found.errors))


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
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def opened(port: int, said: bytes) -> socket.socket:
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
    line, before = Connection(HOST, port), time.monotonic()
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


async def harmed(pid: int, port: int) -> bool:
    await newcomer(port, Seen())  # waits until it has started
    before = rss_bytes(pid)
    print(f"at the start: server {before / 1e6:.0f} MB")
    good = told("1,000 silent", await crowd(pid, port, 1000, b"", 60), 20)
    good &= told("1,000 not reading", await crowd(pid, port, 1000, STATIC, 90), 45)
    large = await crowd(pid, port, 20, TRACE, 150)
    good &= told("20 not reading 15 MB", large, 120) and large.rss_bytes < before + 300e6
    schedule = Path(f"/proc/{pid}/schedstat")  # what the server itself has computed
    for name, body in BODIES.items():
        line = Connection(HOST, port)
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
            good = asyncio.run(harmed(pid, port))
        print(f"log: {log.stat().st_size:,} bytes")
        good &= log.stat().st_size == 0
    print(f"{os.cpu_count()} cores; {'as it should be' if good else 'NOT as it should be'}")
    return int(not good)
