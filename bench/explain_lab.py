"""What `explain` makes of real runs: `python -m bench.explain_lab FOLDER [--runs 60]`; needs root.

DDP over Gloo between two hosts of a lab, with one and with two workers each, profiled by PyTorch's
own profiler: a slow worker, a slow link, a slow loader, small buckets, no overlap, a neighbour on
the link, the wrong interface, or nothing. Every second run is held out: thresholds were chosen
looking at the others only. FOLDER keeps the traces; a run that is there is not made again.
"""

import argparse
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.test_explain_loop import MODEL, RATE

from syncwall.explain.traces.pool import summaries, trace_files
from syncwall.explain.traces.ranks import explain_ranks
from syncwall.lab import Topology, lab
from syncwall.lab.experiment import Fault, SlowLink, SlowLoader, SlowWorker
from syncwall.lab.hosts import Hosts
from syncwall.lab.machine import inside

KINDS = (
    "clean", "slow worker", "slow link", "slow loader", "small buckets", "no overlap", "deep clean",
    "neighbour", "wrong interface",
)  # fmt: skip
DEEP = MODEL.replace("layers: 2", "layers: 16").replace("256", "64").replace("768", "192")
"""Many small tensors: with few large ones, small buckets cost nothing here."""


@dataclass(frozen=True)
class LabRun:
    """One run, and the verdict that is right."""

    number: int
    kind: str
    workers: int
    right: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    fault: Fault | None = None
    bucket: str = "2MiB"
    rate: float = RATE
    model: str = MODEL
    micro_batch: int = 4

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.number:02}-{self.kind.replace(' ', '-')}-{self.workers}"


def planned(number: int) -> LabRun:
    """The run of this number."""
    rng = random.Random(1000 + number)
    kind, workers = KINDS[number // 2 % len(KINDS)], 1 + number // 18 % 2
    rank, host = rng.randrange(2 * workers), rng.randrange(2)
    plain = LabRun(number, kind, workers, ("clean",))
    deep = {"model": DEEP, "micro_batch": 1}
    made: dict[str, dict[str, Any]] = {
        "clean": {},
        "deep clean": deep,
        "slow worker": {
            "right": ("slow worker",), "ranks": (rank,),
            "fault": Fault(slow_worker=SlowWorker(rank=rank, share=rng.uniform(0.35, 0.5))),
        },
        "slow link": {
            "right": ("slow link",),
            "fault": Fault(
                slow_link=SlowLink(host=host, rate_bytes_per_s=RATE / rng.uniform(4, 6))
            ),
        },
        "slow loader": {
            "right": ("slow data loader",), "ranks": (rank,),
            "fault": Fault(slow_loader=SlowLoader(rank=rank, delay_s=rng.uniform(0.1, 0.2))),
        },
        "small buckets": {"right": ("small collectives",), "bucket": "8KiB", **deep},
        "no overlap": {"right": ("no overlap",), "bucket": "1GiB"},
        "neighbour": {"right": ("slow link",), "workers": 1},  # with two, it slows nobody
        "wrong interface": {"right": ("slow link",), "rate": RATE / 8},
    }  # fmt: skip
    return LabRun(**{**vars(plain), **made[kind]})


def recorded(run: LabRun, folder: Path) -> None:
    """Train, profiled, into `folder`."""
    folder.mkdir(parents=True)
    model = folder.with_suffix(".yaml")
    model.write_text(run.model)
    words = ["-m", "syncwall", "measure", "step", "--model", str(model), "--seq", "128",
             "--micro-batch", str(run.micro_batch), "--bucket", run.bucket,
             "--warm-up", "2", "--steps", "8", "--profile", str(folder)]  # fmt: skip
    topology = Topology(hosts=2, workers=run.workers, rate_bytes_per_s=run.rate)
    with lab(topology, "explain") as hosts:
        busy = _neighbour(hosts) if run.kind == "neighbour" else nullcontext()
        with busy:
            hosts.run(words, time_limit_s=180, faults=[run.fault] if run.fault else [])


@contextmanager
def _neighbour(hosts: Hosts) -> Iterator[None]:
    """Another job that sends over the same links, both ways, four streams each."""
    source, target = hosts.network.hosts
    listens = ["iperf3", "-s", "--forceflush"]
    server = subprocess.Popen(inside(target, listens), stdout=subprocess.PIPE)
    assert server.stdout is not None
    while b"listening" not in server.stdout.readline():
        pass
    words = ["iperf3", "-c", hosts.address(1), "-t", "170", "-P", "4", "--bidir"]
    sender = subprocess.Popen(inside(source, words), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        for one in (sender, server):
            one.kill()
            one.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=60)
    asked = parser.parse_args()
    score: Counter[str] = Counter()
    for number in range(asked.runs):
        run = planned(number)
        folder = asked.folder / run.name
        if not list(folder.glob("*.json.gz")):
            recorded(run, folder)
        found = summaries(trace_files(folder), workers=1)
        said = explain_ranks(found.ranks, link_bytes_per_s=RATE)
        is_right = said.kind in run.right and (not run.ranks or said.ranks == run.ranks)
        half = "held out" if number % 2 else "chosen with"
        score[f"{half}: {'right' if is_right else 'wrong'}"] += 1
        score[f"{half}, clean and accused"] += run.right == ("clean",) and said.kind != "clean"
        mark = "" if is_right else "   <-- wrong"
        print(f"{run.name} {run.ranks}: {said.kind} {said.ranks} {said.share:.0%} of "
              f"{said.step_s * 1e3:.0f} ms{mark}", flush=True)  # fmt: skip
    print(dict(score))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
