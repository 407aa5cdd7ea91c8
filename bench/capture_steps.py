"""Real steps beside recorded ones on this machine: `python bench/capture_steps.py [--check]`.

Two workers with a core each, over Gloo, take steps of the programs in capture_step_programs.py; in
turn with them they measure general kernels, collectives, and what the two cost each other. Then
each program is recorded, and priced with what was measured, which knows nothing of the programs.
Prints both times, and what else the machine did meanwhile: steps and collectives wait for quiet
moments until `--seconds` are over. What a step computes, and kernels, are also told in seconds of
their own thread, which others hardly change. With `--check` the exit code is 1 if a step is further
off than `MOST`, or the mean than `MEAN`.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from bench.capture_step_programs import PROGRAMS
from syncwall.answer.program import ProgramPrediction, predict_program
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Nics, Node, Software
from syncwall.lab.closed_loop import device_of
from syncwall.lab.comparison import parts_of
from syncwall.measure.calibrate import joined as joined_measurements
from syncwall.measure.calibrate import measured_of
from syncwall.measure.load import MachineLoad, Meter, watched
from syncwall.measure.result import Result
from syncwall.measure.team import Team, joined
from syncwall.measure.timing import Times

MOST: Final = 0.15
MEAN: Final = 0.10
RANKS: Final = 2
STEPS: Final = 7
"""Of each program, in quiet moments."""
QUIET: Final = 0.08
"""Share of the cores that other programs may use."""
_KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_SIZES: Final = (2**14, 2**18, 2**20, 2**22, 2**24)


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, with --check 1 if a step is too far off."""
    parser = argparse.ArgumentParser(description="Real steps beside recorded ones.")
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), help=", ".join(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=300.0, help="for all measurements")
    parser.add_argument("--keep", type=Path, help="a file for what the workers measured")
    parser.add_argument("--lines", action="store_true", help="print the ledger of each, too")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.worker:
        work(chosen.worker, chosen.names, chosen.seconds)
        return 0
    if chosen.keep and chosen.keep.exists():
        found = json.loads(chosen.keep.read_text())
    else:
        found = run_workers(chosen.names, chosen.seconds)
        if chosen.keep:
            chosen.keep.write_text(json.dumps(found))
    errors = [compared(name, found, chosen.lines) for name in chosen.names]
    mean = statistics.mean(map(abs, errors))
    worst = max(map(abs, errors))
    print(f"mean {mean:.1%}, worst {worst:.1%}")
    return 1 if chosen.check and (worst > MOST or mean > MEAN) else 0


def compared(name: str, found: dict[str, Any], lines: bool) -> float:
    """Prints one program; gives the error of its step."""
    steps = found["steps"][name]
    times, computing = (Times.of([taken[part] for _, taken in steps]) for part in (0, 1))
    others = statistics.median(others for others, _ in steps)
    answer = predicted(name, MachineMeasurements.model_validate(found["measured"]))
    parts = parts_of(dict(answer.ledger.items()))
    computed_s = parts["compute"] + parts["optimizer"]
    error = answer.step_s / times.median_s - 1
    print(f"{name} (others {others:.0%})")
    print(f"  step        {_beside(times, answer.step_s)}")
    print(f"  computation {_beside(computing, computed_s)}", flush=True)
    if lines:
        for cause, seconds in answer.ledger.items():
            print(f"    {cause!s:24}{1e3 * float(seconds):9.1f} ms")
    return error


def _beside(measured: Times, predicted_s: float) -> str:
    p10, p50, p90 = (1e3 * one for one in (measured.p10_s, measured.median_s, measured.p90_s))
    error = predicted_s / measured.median_s - 1
    return (
        f"measured {p50:7.1f} ms ({p10:.0f} to {p90:.0f}), predicted {1e3 * predicted_s:7.1f} ms, "
        f"{error:+.1%}"
    )


def predicted(name: str, measured: MachineMeasurements) -> ProgramPrediction:
    """The program, recorded and priced with what was measured."""
    import torch.distributed as dist

    from syncwall.capture.recorder import recording

    with recording(RANKS, ranks_per_node=RANKS) as found:
        dist.init_process_group("gloo")
        step = PROGRAMS[name]()
        step()
        step()
    node = Node(
        device=device_of(measured),
        gpus=RANKS,
        nics=Nics(count=1, rate_bytes_per_s=1e9, transport="gloo"),
    )
    cluster = Cluster(name="this machine", node=node, nodes=1)
    software = Software(framework="pytorch-cpu")
    return predict_program(found.program(), cluster, software, measured=measured)


def run_workers(names: list[str], seconds: float) -> dict[str, Any]:
    """What two workers measured."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        flags = ["--seconds", str(seconds), "--worker", str(path)]
        processes = []
        for rank in range(RANKS):
            given = {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "MASTER_PORT": port,
                "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1,
            }  # fmt: skip
            environment = os.environ | {key: str(value) for key, value in given.items()}
            command = [sys.executable, "-m", "bench.capture_steps", *names, *flags]
            processes.append(subprocess.Popen(command, env=environment))
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(f"workers ended with {codes}")
        return dict(json.loads(path.read_text()))


@dataclass
class Piece:
    """One thing to measure, and what came of it."""

    run: Callable[[], Any]
    wanted: int = 2
    """Quiet measurements."""
    quiet: float = QUIET
    """Share of the cores that others may use meanwhile."""
    found: list[tuple[float, Any]] = field(default_factory=list)
    """Others' share of the cores meanwhile, and the value."""

    def is_due(self, is_late: bool) -> bool:
        """Whether more measurements are wanted: quiet ones, or when it is late, any."""
        quiet = [others for others, _ in self.found if is_late or others <= self.quiet]
        return len(quiet) < self.wanted

    def measure(self, team: Team) -> None:
        """Once more."""
        meter = Meter(team.hosts[team.rank])
        value = self.run()
        load = MachineLoad.of(team.gathered(meter.spent()))
        self.found.append((load.before.others if load else 0.0, value))

    @property
    def best(self) -> list[tuple[float, Any]]:
        """The quiet ones, or as many of the quietest."""
        return sorted(self.found, key=lambda one: one[0])[: self.wanted]


def work(path: Path, names: list[str], seconds: float) -> None:
    """One of the two workers: goes through all pieces again and again, in quiet moments."""
    import torch

    torch.manual_seed(0)
    with joined("gloo", timeout_s=seconds + 600.0) as team:
        steps = {name: PROGRAMS[name]() for name in names}
        for step in steps.values():
            step()
        timed = {
            name: Piece(partial(seconds_of, team, step), STEPS) for name, step in steps.items()
        }
        kernels, sent, beside = calibration_pieces(team)
        pieces = [*kernels, *sent, beside]
        among = [piece for at in range(0, len(pieces), 12)
                 for piece in (*pieces[at : at + 12], *timed.values())]  # fmt: skip
        deadline = time.monotonic() + seconds
        is_late = False
        while any(one.is_due(is_late) for one in among):
            for one in among:
                if one.is_due(is_late):
                    if one not in kernels:
                        await_quiet(team, deadline)
                    one.measure(team)
                    is_late = team.slowest([float(time.monotonic() > deadline)])[0] > 0
        if team.leads:
            found = {
                "steps": {name: one.best for name, one in timed.items()},
                "measured": measurements(team, kernels, sent, beside).model_dump(mode="json"),
                "others": statistics.median(other for one in pieces for other, _ in one.best),
            }
            path.write_text(json.dumps(found))


def await_quiet(team: Team, deadline: float) -> None:
    """Wait until others leave the cores alone, or until the deadline."""
    if team.leads:
        while time.monotonic() < deadline:
            before = watched(team.hosts[0])
            load = MachineLoad.of([before])
            if load is None or load.before.others <= QUIET:
                break
    team.barrier()


def calibration_pieces(team: Team) -> tuple[list[Piece], list[Piece], Piece]:
    """Kernels, collectives, and what the two cost each other, as `syncwall measure` does."""
    from syncwall.measure.collectives import Effort, measure_collectives
    from syncwall.measure.general import general_kernels, measure_general
    from syncwall.measure.overlap import measure_overlap

    def row(kind: Any, size: int) -> Any:
        return next(iter(measure_collectives(team, [kind], [size], effort=Effort(0.2))))

    clock = time.thread_time
    kernels = [
        Piece(partial(measure_general, team, *one, clock=clock), 1, 1.0)
        for one in general_kernels()
    ]
    sent = [Piece(partial(row, kind, size)) for kind, size in product(_KINDS, _SIZES)]
    return kernels, sent, Piece(partial(measure_overlap, team), 1)


def measurements(
    team: Team, kernels: list[Piece], sent: list[Piece], beside: Piece
) -> MachineMeasurements:
    """All that was measured, as a calibration."""
    cost = beside.best[0][1].model_dump()
    both = {
        "matmul": {"rows": [quickest(one) for one in kernels], "beside": cost},
        "collectives": {"rows": [quickest(one) for one in sent]},
    }
    return joined_measurements(
        [measured_of(Result(kind=kind, job=team.job, hosts=team.facts, data=data))
         for kind, data in both.items()]
    )  # fmt: skip


def quickest(piece: Piece) -> dict[str, Any]:
    """Of equally quiet rows the one that took less."""
    rows = [row for _, row in piece.best]
    found: dict[str, Any] = min(rows, key=lambda row: row.times.mean_s).model_dump()
    return found


def seconds_of(team: Team, step: Callable[[], None]) -> list[float]:
    """One step that all ranks begin together: on the clock, and what its thread computes."""
    team.barrier()
    begun, computed = time.perf_counter(), time.thread_time()
    step()
    return team.slowest([time.perf_counter() - begun, time.thread_time() - computed])


if __name__ == "__main__":
    sys.exit(main())
