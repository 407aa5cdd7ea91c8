"""Real steps beside recorded ones on this machine: two workers with a core each, over Gloo."""

import json
import os
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

from tests.capture.step_programs import PROGRAMS
from tests.measure.ranks import free_port

from bench import Names
from syncwall.answer.prediction import Prediction, predict
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Nics, Node, Software
from syncwall.lab.closed_loop import device_of
from syncwall.lab.comparison import ledger_groups
from syncwall.measure.calibrate import joined_calibrations as joined_measurements
from syncwall.measure.calibrate import measured_of
from syncwall.measure.kernel_times import Times
from syncwall.measure.result import MachineLoad, Meter, Result, watched
from syncwall.measure.team import Team, joined

MOST, MEAN = 0.15, 0.10
RANKS: Final = 2
STEPS: Final = 7
"""Of each program, in quiet moments."""
QUIET: Final = 0.08
"""Share of the cores that other programs may use."""
_KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_SIZES: Final = (2**14, 2**18, 2**20, 2**22, 2**24)


def steps(
    names: Names = (),
    seconds: float = 300.0,
    keep: Path | None = None,
    lines: bool = False,
    check: bool = False,
    worker: Path | None = None,
) -> int:
    """Real steps of two workers beside recorded ones that are priced with what was measured.

    They take steps of the programs in tests/capture/step_programs.py; in turn with them they
    measure general kernels, collectives, and what the two cost each other. Then each program is
    recorded, and priced with what was measured, which knows nothing of the programs. Prints both
    times, and what else the machine did meanwhile: steps and collectives wait for quiet moments
    until --seconds are over. What a step computes, and kernels, are also told in seconds of their
    own thread, which others hardly change. With --check the exit code is 1 if a step is further off
    than 15%, or the mean than 10%.

    Args:
        names: Programs; all if none are named.
        seconds: For all measurements.
        keep: A file for what the workers measured; read if it is there.
        lines: Print the ledger of each, too.
        check: Fail if a step is too far off.
        worker: Be one of the two workers, and write here what was measured.
    """
    chosen = names or tuple(PROGRAMS)
    if worker:
        work(worker, chosen, seconds)
        return 0
    if keep and keep.exists():
        found = json.loads(keep.read_text())
    else:
        found = run_workers(chosen, seconds)
        if keep:
            keep.write_text(json.dumps(found))
    errors = [abs(compared(name, found, lines)) for name in chosen]
    mean, worst = statistics.mean(errors), max(errors)
    print(f"mean {mean:.1%}, worst {worst:.1%}")
    return int(check and (worst > MOST or mean > MEAN))


def compared(name: str, found: dict[str, Any], lines: bool) -> float:
    taken = found["steps"][name]
    answer = predicted(name, MachineMeasurements.model_validate(found["measured"]))
    parts = ledger_groups(dict(answer.ledger.items()))
    both = {"step": answer.step_s, "computation": parts["compute"] + parts["optimizer"]}
    print(f"{name} (others {statistics.median(others for others, _ in taken):.0%})")
    errors = []
    for place, (title, predicted_s) in enumerate(both.items()):
        times = Times.of([each[place] for _, each in taken])
        p10, p50, p90 = (1e3 * one for one in (times.p10_s, times.median_s, times.p90_s))
        errors.append(predicted_s / times.median_s - 1)
        measured = f"measured {p50:7.1f} ms ({p10:.0f} to {p90:.0f})"
        said = f"predicted {1e3 * predicted_s:7.1f} ms, {errors[-1]:+.1%}"
        print(f"  {title:11} {measured}, {said}", flush=True)
    for cause, spent_s in answer.ledger.items() if lines else ():
        print(f"    {cause!s:24}{1e3 * float(spent_s):9.1f} ms")
    return errors[0]


def predicted(name: str, measured: MachineMeasurements) -> Prediction:
    import torch.distributed as dist

    from syncwall.capture.recorder import recording

    with recording(RANKS, ranks_per_node=RANKS) as found:
        dist.init_process_group("gloo")
        step = PROGRAMS[name]()
        step()
        step()
    nics = Nics(count=1, rate_bytes_per_s=1e9, transport="gloo")
    node = Node(device=device_of(measured), gpus=RANKS, nics=nics)
    cluster = Cluster(name="this machine", node=node, nodes=1)
    software = Software(framework="pytorch-cpu")
    return predict(found.program(), cluster=cluster, software=software, measured=measured)


def run_workers(names: tuple[str, ...], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        flags = ["--seconds", str(seconds), "--worker", str(path)]
        command = [sys.executable, "-m", "bench", "accuracy", "steps", *names, *flags]
        shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        shared |= {"WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
        each = [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(RANKS)]
        codes = [one.wait() for one in [subprocess.Popen(command, env=own) for own in each]]
        if any(codes):
            raise SystemExit(f"workers ended with {codes}")
        return dict(json.loads(path.read_text()))


@dataclass
class Piece:
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
        meter = Meter(team.hosts[team.rank])
        value = self.run()
        load = MachineLoad.of(team.gathered(meter.spent()))
        self.found.append((load.before.others if load else 0.0, value))

    @property
    def best(self) -> list[tuple[float, Any]]:
        return sorted(self.found, key=lambda one: one[0])[: self.wanted]

    @property
    def quickest(self) -> dict[str, Any]:
        rows = [row for _, row in self.best]
        found: dict[str, Any] = min(rows, key=lambda row: row.times.mean_s).model_dump()
        return found


def work(path: Path, names: tuple[str, ...], seconds: float) -> None:
    """One of the two workers: goes through all pieces again and again, in quiet moments."""
    import torch

    torch.manual_seed(0)
    with joined("gloo", timeout_s=seconds + 600.0) as team:
        made = {name: PROGRAMS[name]() for name in names}
        for step in made.values():
            step()
        timed = {n: Piece(partial(seconds_of, team, step), STEPS) for n, step in made.items()}
        kernels, sent, beside = calibration_pieces(team)
        pieces = [*kernels, *sent, beside]
        lots = [pieces[at : at + 12] for at in range(0, len(pieces), 12)]
        among = [piece for lot in lots for piece in (*lot, *timed.values())]
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
            cost = beside.best[0][1].model_dump()
            rows = {"rows": [one.quickest for one in kernels], "beside": cost}
            both = {"matmul": rows, "collectives": {"rows": [one.quickest for one in sent]}}
            about = {"job": team.job, "hosts": team.facts}
            results = [Result(kind=kind, data=data, **about) for kind, data in both.items()]
            known = joined_measurements([measured_of(result) for result in results])
            found = {
                "steps": {name: one.best for name, one in timed.items()},
                "measured": known.model_dump(mode="json"),
                "others": statistics.median(other for one in pieces for other, _ in one.best),
            }
            path.write_text(json.dumps(found))


def await_quiet(team: Team, deadline: float) -> None:
    while team.leads and time.monotonic() < deadline:
        load = MachineLoad.of([watched(team.hosts[0])])
        if load is None or load.before.others <= QUIET:
            break
    team.barrier()


def calibration_pieces(team: Team) -> tuple[list[Piece], list[Piece], Piece]:
    from syncwall.measure.collectives import Effort, measure_collectives
    from syncwall.measure.general import general_kernels, measure_general
    from syncwall.measure.overlap import measure_overlap

    def row(kind: Any, size: int) -> Any:
        return next(iter(measure_collectives(team, [kind], [size], effort=Effort(0.2))))

    timed = partial(measure_general, team, clock=time.thread_time)
    kernels = [Piece(partial(timed, *one), 1, 1.0) for one in general_kernels()]
    sent = [Piece(partial(row, kind, size)) for kind, size in product(_KINDS, _SIZES)]
    return kernels, sent, Piece(partial(measure_overlap, team), 1)


def seconds_of(team: Team, step: Callable[[], None]) -> list[float]:
    """One step that all ranks begin together: on the clock, and what its thread computes."""
    team.barrier()
    begun, computed = time.perf_counter(), time.thread_time()
    step()
    return team.slowest([time.perf_counter() - begun, time.thread_time() - computed])
