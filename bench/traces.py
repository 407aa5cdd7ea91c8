"""Profiler traces read by us and by Holistic Trace Analysis (HTA), side by side.

    python bench/traces.py --hta VENV/bin/python [FILE ...]

Each file is read by each tool in a process of its own, one after the other: wall time and CPU time
of the whole process, CPU time without its imports ("work"), peak memory, and the parts of the
device's time. HTA (`pip
install traceinsight`) must be in an environment of its own.

"apart" is the largest difference of a part or of the overlap, in percentage points. Where HTA
defines things otherwise it is not small; "same" is what is left of it once we take its definitions:
- it leaves out kernels whose launch is not in the trace, if there are two or more marked steps;
- it rounds starts up and ends down to whole microseconds;
- it takes kernels for communication only by NCCL's, HIP's and HCCL's names, so that DeepEP and
  multimem kernels are computation.
It also leaves out the last step unless asked; it is asked here.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.breakdown import breakdown_of  # noqa: E402
from syncwall.read.kineto import read_trace  # noqa: E402
from syncwall.read.kineto_collectives import launches  # noqa: E402
from syncwall.read.trace import Trace  # noqa: E402

TRACES = Path(__file__).parents[2] / "shared" / "data" / "measured" / "04_traces"
END = """
took = time.process_time() - began
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([answer, took, int(peak) * 1024]))
"""
OURS = (
    """
import json, sys, time
from syncwall.read.kineto import read_trace
from bench.breakdown import breakdown_of
began = time.process_time()
parts = breakdown_of(read_trace(sys.argv[1]))
answer = None if parts is None else {
    "idle": parts.idle_s / parts.total_s, "compute": parts.compute_s / parts.total_s,
    "rest": parts.non_compute_s / parts.total_s, "overlap": parts.overlap}
"""
    + END
)
THEIRS = (
    """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
began = time.process_time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
parts = analysis.get_temporal_breakdown(visualize=False).iloc[0]
try:
    overlap = float(analysis.get_comm_comp_overlap(visualize=False).iloc[0, 1]) / 100
except Exception:
    overlap = None
total = float(parts["kernel_time(us)"])
answer = {
    "idle": float(parts["idle_time(us)"]) / total,
    "compute": float(parts["compute_time(us)"]) / total,
    "rest": float(parts["non_compute_time(us)"]) / total,
    "overlap": None if overlap != overlap else overlap}
"""
    + END
)
NAMES = re.compile(r"^nccl|^hip|^hccl|.*ncclKernel")


@dataclass(frozen=True)
class Outcome:
    """What one process gave and took."""

    answer: dict[str, Any] | None
    wall_s: float
    cpu_s: float
    work_s: float
    """CPU time after the imports."""
    peak_bytes: float


def measured(python: str, program: str, file: Path) -> Outcome:
    """Runs `program` on `file`; no answer if it failed or the trace has no device."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [python, "-c", program, str(file.resolve())],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    failed = process.returncode != 0 or not text.strip()
    said: Any = [None, 0.0, 0.0] if failed else json.loads(text.splitlines()[-1])
    answer, work_s, peak = said
    return Outcome(answer, wall_s, usage.ru_utime + usage.ru_stime, work_s, peak)


def as_theirs(trace: Trace) -> Trace:
    """The trace as HTA would see it."""
    device = trace.stream >= 0
    keep = ~device | (launches(trace) >= 0) if len(trace.steps) > 1 else np.full(len(trace), True)
    start, end = -(-trace.start_ns // 1000) * 1000, trace.end_ns // 1000 * 1000
    keep &= ~device | (end > start)
    place = np.cumsum(keep) - 1
    mine = {
        i: c
        for i, c in trace.collectives.items()
        if keep[i] and NAMES.match(trace.names[trace.name[i]])
    }
    others = {int(trace.name[i]) for i in trace.collectives if i not in mine and keep[i]}
    return replace(
        trace,
        names=["computation" if i in others else n for i, n in enumerate(trace.names)],
        collectives={int(place[i]): c for i, c in mine.items()},
        start_ns=start[keep],
        duration_ns=np.maximum(end - start, 0)[keep],
        **{
            key: getattr(trace, key)[keep]
            for key in ("name", "category", "thread", "stream", "correlation")
        },
    )


def by_their_rules(file: Path) -> dict[str, Any] | None:
    """Our answer under HTA's definitions."""
    parts = breakdown_of(as_theirs(read_trace(file)))
    return (
        None
        if parts is None
        else {
            "idle": parts.idle_s / parts.total_s,
            "compute": parts.compute_s / parts.total_s,
            "rest": parts.non_compute_s / parts.total_s,
            "overlap": parts.overlap,
        }
    )


def apart(ours: dict[str, Any] | None, theirs: dict[str, Any] | None) -> float | None:
    """The largest difference, in percentage points."""
    if ours is None or theirs is None:
        return None
    return 100.0 * max(
        float(abs(ours[key] - theirs[key]))
        for key in ours
        if ours[key] is not None and theirs[key] is not None
    )


def points(value: float | None) -> str:
    return "     -" if value is None else f"{value:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hta", required=True, help="python of the environment with HTA")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    files = options.files or [f for f in sorted(TRACES.glob("*.json.gz")) if "_et" not in f.name]
    print(
        f"{'trace':34} {'wall s':>12} {'x':>5} {'CPU s':>12} {'x':>5} {'work s':>12} {'x':>5}"
        f" {'MiB':>9} {'share':>5} {'apart':>6} {'same':>6}   (ours, HTA, ratio)"
    )
    pairs = []
    for file in files:
        ours, theirs = measured(sys.executable, OURS, file), measured(options.hta, THEIRS, file)
        same = apart(by_their_rules(file), theirs.answer)
        if theirs.answer is None:
            print(
                f"{file.name[:34]:34} no answer from HTA"
                if ours.answer
                else f"{file.name[:34]:34} has no device"
            )
            continue
        times = " ".join(
            f"{a:5.2f} {b:6.2f} {b / a:5.1f}"
            for a, b in (
                (ours.wall_s, theirs.wall_s),
                (ours.cpu_s, theirs.cpu_s),
                (ours.work_s, theirs.work_s),
            )
        )
        print(
            f"{file.name[:34]:34} {times} {ours.peak_bytes / 2**20:4.0f}"
            f" {theirs.peak_bytes / 2**20:4.0f} {ours.peak_bytes / theirs.peak_bytes:5.2f}"
            f" {points(apart(ours.answer, theirs.answer))} {points(same)}",
            flush=True,
        )
        pairs.append((ours, theirs, same))
    if not pairs:
        return
    wall, cpu, work = (
        sum(getattr(theirs, key) for _, theirs, _ in pairs)
        / sum(getattr(ours, key) for ours, _, _ in pairs)
        for key in ("wall_s", "cpu_s", "work_s")
    )
    most = max(ours.peak_bytes / theirs.peak_bytes for ours, theirs, _ in pairs)
    print(
        f"{len(pairs)} traces that HTA answers: {wall:.1f}x faster (CPU {cpu:.1f}x, without"
        f" imports {work:.1f}x), at most {most:.2f} of its memory, at most"
        f" {max(same or 0 for *_, same in pairs):.2f} points apart under its definitions"
    )


if __name__ == "__main__":
    main()
