"""A lab host that is cut off, for `bench/watch.py nodes` (root): who names it, and how soon.

Holds `cut_off`.
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.watch_jobs import SCRIPT
from syncwall.lab import Topology, lab
from syncwall.lab.hosts import Hosts
from syncwall.lab.machine import issue

HOSTS = 3


def cut_off(number: int) -> None:
    """Run a job on three hosts, cut one off once all train, and print who was named."""
    victim = (1, 0, 2)[number % HOSTS]
    times: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        lab(Topology(hosts=HOSTS, rate_bytes_per_s=25e6), "watch") as hosts,
    ):
        cut = threading.Thread(target=_cut, args=(hosts, Path(folder), victim, times))
        cut.start()
        words = [
            "-c",
            "import os, sys; from syncwall.cli import main; "
            f"events = '{folder}/' + os.environ['SYNCWALL_HOST'] + '.jsonl'; "
            f"sys.exit(main(['watch', '--events', events, '--', sys.executable, '{SCRIPT}']))",
        ]
        environment = {"STEPS": "100000", "COMPUTE_S": "0.02", "FAULT": "none"}
        hosts.run(words, time_limit_s=75.0, grace_s=5.0, environment=environment)
        cut.join()
        for host in range(HOSTS):
            path = Path(folder) / f"h{host}.jsonl"
            said = list(_said(path, times[0])) if times else []
            shown = ", ".join(f"{kind} {who} after {late:.2f} s" for late, kind, who in said[:3])
            print(f"{number}: h{victim} cut off; h{host} says: {shown or 'nothing'}", flush=True)


def _said(path: Path, cut_s: float) -> Iterator[tuple[float, str, str]]:
    for one in _events(path):
        if one["event"] in ("finding", "told"):
            yield (
                one["time_s"] - cut_s,
                f"{one['event']}: {one['kind']}",
                one["node"] or str(one["rank"]),
            )


def _cut(hosts: Hosts, folder: Path, victim: int, times: list[float]) -> None:
    """Once the first host has heard of windows of all ranks."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        windows = {one["rank"] for one in _events(folder / "h0.jsonl") if one["event"] == "window"}
        if len(windows) == HOSTS:
            times.append(time.time())
            issue(("ip", "-n", hosts.network.hosts[victim], "link", "set", "eth0", "down"))
            return
        time.sleep(0.2)


def _events(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
