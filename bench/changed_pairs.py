"""Changes named on real runs: `python bench/changed_pairs.py [--repeats N] [--keep DIR]`.

Two workers on this machine train with DistributedDataParallel over Gloo and trace ten steps, again
and again: as usual, and with one change of `CHANGES`. The forward pass is a wait, as for an
accelerator, so that neighbours on a busy machine disturb little; all else is real. Every changed
run is compared with a usual one by `syncwall explain --against`, and usual runs with each other.
"""

import argparse
import gc
import os
import socket
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

CHANGES = {
    "slow worker": ("compute", (1,)),
    "slow loader": ("data", (0,)),
    "slow loaders": ("data", ()),
    "larger batch": ("compute", ()),
    "more gradients": ("transfer", ()),
    "collection": ("gc", (1,)),
}
"""What `explain` should name: a kind of time, and the ranks."""
STEPS, WIDTH, BATCH = 14, 128, 4
FORWARD_S, LATE_S = 0.1, 0.06


def worker(change: str, folder: Path) -> None:
    """One rank of the job."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(6)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    late = change == "larger batch" or (change == "slow worker" and rank == 1)
    forward_s = FORWARD_S + (LATE_S if late else 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    more = torch.zeros(1 << 24)

    class Data(torch.utils.data.Dataset[Any]):  # type: ignore[misc] # torch is optional
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, index: int) -> Any:
            late = change == "slow loaders" or (change == "slow loader" and rank == 0)
            time.sleep(LATE_S if late else 0.001)
            return torch.full((BATCH, WIDTH), float(index))

    loader = torch.utils.data.DataLoader(Data(), batch_size=None)
    plan = schedule(wait=1, warmup=1, active=STEPS - 2)

    def kept(profiler: Any) -> None:
        profiler.export_chrome_trace(str(folder / f"rank{rank}.json"))

    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=kept) as running:
        for step, data in enumerate(loader):
            if step == STEPS:
                break
            loss = model(data).square().mean()
            time.sleep(forward_s)
            if change == "collection" and rank == 1:
                with record_function("gc.collect"):
                    waste: list[list[int]] = [[] for _ in range(200_000)]
                    gc.collect()
                    del waste
            loss.backward()
            if change == "more gradients":
                dist.all_reduce(more)
            optimizer.step()
            optimizer.zero_grad()
            running.step()
    dist.destroy_process_group()


def run(change: str, folder: Path) -> Path:
    """Both ranks, each a process; their traces are in `folder`."""
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", change, str(folder)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]  # fmt: skip
    if any(one.wait(120) for one in started):
        raise SystemExit(f"a worker of {change} failed")
    return folder


def judged(now: Path, before: Path) -> tuple[bool, str, tuple[int, ...], str]:
    """Whether a change was seen, the part that was named first, its ranks, and the verdict."""
    import syncwall as sw
    from syncwall.show.words.explanation import verdict

    found = sw.explain(now, against=before, workers=1)
    step = found.changed.difference if found.changed else None
    assert step is not None, "traces on both sides"
    first = step.named[0] if step.named else None
    return (
        step.is_changed,
        first.kind if first else "",
        first.ranks if first else (),
        verdict(found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Changes named on real runs.")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each change")
    parser.add_argument("--keep", type=Path, help="keep the traces here")
    parser.add_argument("--worker", nargs=2, metavar=("CHANGE", "DIR"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        worker(asked.worker[0], Path(asked.worker[1]))
        return
    folder = asked.keep or Path(tempfile.mkdtemp())
    usual = [run("usual", folder / f"usual{n}") for n in range(2 * asked.repeats)]
    right = 0
    for change, expected in CHANGES.items():
        for n in range(asked.repeats):
            now = run(change, folder / f"{change.replace(' ', '-')}{n}")
            changed, kind, ranks, said = judged(now, usual[n])
            right += changed and (kind, ranks) == expected
            print(
                f"{'right' if changed and (kind, ranks) == expected else 'WRONG'}  {change}: {said}"
            )
    pairs = list(combinations(usual, 2))[:20]
    same = [judged(now, before) for before, now in pairs]
    for changed, *_, said in same:
        if changed:
            print(f"WRONG  usual: {said}")
    print(f"changes named: {right} of {asked.repeats * len(CHANGES)}")
    print(f"nothing changed: {sum(not one[0] for one in same)} of {len(same)}")


if __name__ == "__main__":
    main()
