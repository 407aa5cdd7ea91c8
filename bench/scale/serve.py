"""Many people at once on `syncwall serve`: a real server on loopback, a client on plain sockets.

Every user opens the page, then changes something once a second; the page asks for the prediction,
then for the timeline and for what to change, and lets go of what has not come when the next change
is made: so does `static/ask.js`. Times are from the first byte sent to the last byte received. The
client is one process, so that it leaves the cores to the server.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LLAMAS = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b")
MODELS = (*_LLAMAS, "gpt3-175b", "gpt-neox-20b", "mixtral-8x7b")
CLUSTERS = ("dgx-h100", "dgx-a100", "dgx-b200", "superpod-h100")
LATER = ("timeline", "next")
"""What the page asks for once it has the prediction."""
EVERY_S, GATHERED_S = 1.0, 0.15
"""Between two changes; and until the page asks for what can wait."""


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
        """Seconds that this share of the answers took at most."""
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
        self._where, self._users, self._left, self._seed = (
            ("127.0.0.1", port),
            users,
            requests,
            seed,
        )
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
        f"{users} users, {found.requests:,} requests in {found.wall_s:.1f} s ({rate}), "
        f"{os.cpu_count()} cores"
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
