"""Faults in real Gloo jobs, told by `syncwall watch` and by TraceML (PyPI `traceml-ai`) side by side.

The same script, two ranks under torchrun, one tool after the other. Right is who names the fault
and, where one rank has it, the rank: live within `STEPS_LATE` steps or `LATE_S` for `watch`, anywhere
in what it prints or in its final summary for TraceML. Anything severe in a healthy run is a false alarm.
"""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import tyro
from tests.measure.ranks import free_port
from tests.watch.watched_job import SCRIPT, events_of

RANKS: Final = 2
STEPS: Final = 500
COMPUTE_S: Final = 0.02
STEPS_LATE: Final = 100
LATE_S: Final = 10.0
LIMIT_S: Final = 90.0
"""A job that hangs is ended by then."""
PATIENCE_S: Final = 20.0
"""How long it is left alone once it should have been told."""


@dataclass(frozen=True)
class Fault:
    """A fault, and what counts as its name."""

    variables: dict[str, Any]
    findings: frozenset[str]
    """Kinds of findings of `watch` that name it."""
    words: str
    """A pattern in the verdicts of TraceML that names it."""
    is_of_a_rank: bool = True
    hangs: bool = False
    steps: int = STEPS


FAULTS: Final = {
    "killed": Fault({"fault": "killed"}, frozenset({"dead rank"}), r"dead|killed|SIGKILL|exited"),
    "stopped": Fault(
        {"fault": "stopped", "fault_s": 8}, frozenset({"stopped rank"}), "STRAGGLER|stopped|No .*data"
    ),
    "hung": Fault(
        {"fault": "collective"}, frozenset({"hung rank"}), r"hang|hung|stuck|No .*data", hangs=True
    ),
    "exception": Fault({"fault": "exception"}, frozenset({"dead rank"}), r"exception|RuntimeError|failed on"),
    "rank 15% slower": Fault({"fault": "slow", "fault_s": 0.15}, frozenset({"straggler"}), "STRAGGLER"),
    "loader stall of 5 s": Fault(
        {"fault": "data", "fault_rank": "all", "fault_s": 5},
        frozenset({"data stall"}),
        "INPUT.BOUND|INPUT STRAGGLER",
        is_of_a_rank=False,
    ),
    "get_batch of a rank stalls 5 s": Fault(
        {"fault": "data", "own_batches": 1, "fault_s": 5},
        frozenset({"data stall"}),
        "INPUT.BOUND|INPUT STRAGGLER",
    ),
    "slower from step 250": Fault(
        {"fault": "slow", "fault_rank": "all", "fault_s": 0.6, "fault_step": 250},
        frozenset({"slow-down"}),
        r"slow(er|ed)|regress|drift",
        is_of_a_rank=False,
        steps=1500,
    ),
    "loss spike": Fault(
        {"fault": "spike", "fault_rank": "all"},
        frozenset({"loss spike", "gradient norm spike"}),
        "loss|spike",
        is_of_a_rank=False,
    ),
    "NaN": Fault(
        {"fault": "nan", "fault_rank": "all"}, frozenset({"loss spike"}), "NaN|loss", is_of_a_rank=False
    ),
    "healthy": Fault({}, frozenset(), "STRAGGLER|CRITICAL", is_of_a_rank=False),
}


@dataclass
class Score:
    """What one tool reached."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    """Another rank or another fault was named, or anything in a healthy run."""
    cpu_s: float = 0.0
    """Of healthy runs, start-up and the tool's own processes included."""


def faults(
    only: Annotated[str, tyro.conf.arg(help="of the faults, those with these words")] = "",
    repeat: int = 10,
    seed: int = 20,
    traceml: Path | None = None,
) -> None:
    """Ten of each fault in random ranks; with --traceml PATH of its command the same under TraceML."""
    random.seed(seed)
    tools = {"watch": _watch} | ({} if traceml is None else {"TraceML": _traceml_of(traceml)})
    scores = {name: Score() for name in ("bare", *tools)}
    for number in range(repeat):
        for name, fault in FAULTS.items():
            if not any(word in name for word in only.split(",")):
                continue
            variables: dict[str, Any] = {
                "fault_step": random.randrange(150, 250),
                "fault_rank": random.randrange(RANKS),
            }
            variables |= {
                "steps": fault.steps,
                "compute_s": COMPUTE_S,
                "compute_in": "forward",
            } | fault.variables
            for tool, run in tools.items():
                before_s = _children_s()
                right, wrong, said = run(fault, variables)
                scores[tool].right[name] += right
                scores[tool].wrong[name] += wrong
                if name == "healthy":
                    scores[tool].cpu_s += _children_s() - before_s
                verdict = "right" if right else "wrong" if wrong else "missed"
                print(
                    f"{number} {name}, rank {variables['fault_rank']}: {tool} {verdict}: {said}", flush=True
                )
            if name == "healthy":
                before_s = _children_s()
                _ended(_torchrun(), variables | {"SYNCWALL_WATCH": 0}, hangs=False)
                scores["bare"].cpu_s += _children_s() - before_s
    _print_table(scores, repeat, only)


def _print_table(scores: dict[str, Score], repeat: int, only: str) -> None:
    tools = [name for name in scores if name != "bare"]
    print(f"{'right of ' + str(repeat):24}" + "".join(f"{tool:>12}" for tool in tools) + "   (wrongly named)")
    for name in FAULTS:
        if any(word in name for word in only.split(",")):
            cells = [f"{one.right[name]:>7} ({one.wrong[name]:>2})" for one in map(scores.__getitem__, tools)]
            print(f"{name:24}" + "".join(f"{cell:>12}" for cell in cells))
    if scores["bare"].cpu_s:
        costs = [f"{tool} {scores[tool].cpu_s / scores['bare'].cpu_s - 1:+.1%}" for tool in tools]
        print(f"CPU of healthy runs, start-up included, over none: {', '.join(costs)}")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _torchrun() -> list[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    return [*words, "--master-port", str(free_port()), str(SCRIPT)]


def _ended(words: list[str], variables: dict[str, Any], *, hangs: bool) -> str:
    """What the command printed; one that hangs is interrupted."""
    given = os.environ | {"OMP_NUM_THREADS": "1"} | {name.upper(): str(it) for name, it in variables.items()}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.Popen(words, env=given, start_new_session=True, **pipes)
    limit_s = PATIENCE_S + COMPUTE_S * STEPS if hangs else LIMIT_S
    try:
        return done.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        done.send_signal(signal.SIGTERM)
        try:
            return done.communicate(timeout=40)[0]
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            return done.communicate()[0]


def _watch(fault: Fault, variables: dict[str, Any]) -> tuple[bool, bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events.jsonl")
        words = [sys.executable, "-m", "syncwall", "watch", "--events", str(events), "--", *_torchrun()]
        _ended(words, variables, hangs=fault.hangs)
        found = events_of(events, "finding")
    named = [one for one in found if one["kind"] in fault.findings and _is_soon(one, variables)]
    if fault.is_of_a_rank:
        named = [one for one in named if one["rank"] == variables["fault_rank"]]
    others = [one for one in found if one["kind"] not in fault.findings]
    if fault.is_of_a_rank:
        others += [one for one in found if one["rank"] != variables["fault_rank"] and one not in others]
    said = "; ".join(f"{one['kind']} {one['rank']}: {one['evidence']}" for one in found[:2]) or "nothing"
    if not fault.findings:
        return not found, bool(found), said
    return bool(named), bool(others) and not named, said


def _is_soon(finding: dict[str, Any], variables: dict[str, Any]) -> bool:
    """Told within so many steps of the fault, or so many seconds of its own beginning."""
    step = finding.get("since_step")
    in_steps = step is not None and abs(step - variables["fault_step"]) <= STEPS_LATE
    return in_steps or finding["time_s"] - finding["since_s"] <= LATE_S


def _traceml_of(command: Path) -> Any:
    def run(fault: Fault, variables: dict[str, Any]) -> tuple[bool, bool, str]:
        with tempfile.TemporaryDirectory() as folder:
            words = [
                str(command),
                "run",
                "--nproc-per-node",
                str(RANKS),
                "--logs-dir",
                folder,
                "--run-name",
                "run",
            ]
            words += ["--finalize-timeout-sec", "20", "--aggregator-port", str(free_port())]
            words += ["--master-port", str(free_port()), str(SCRIPT)]
            own = variables | {"TRACEML": 1, "SYNCWALL_WATCH": 0}
            text = _ended(words, own, hangs=fault.hangs)
            summary = Path(folder, "run", "final_summary.json")
            record = json.loads(summary.read_text()) if summary.exists() else {}
        verdict = " ".join(re.findall(r"Verdict: .*|Why: .*", text)) or "no summary"
        said = re.sub(r"\s+[|]?\s*", " ", verdict)
        names_it = bool(re.search(fault.words, said, re.IGNORECASE))
        names_rank = bool(re.search(rf"\bR{variables['fault_rank']}\b", said))
        if not fault.findings:
            return not names_it, names_it, said
        severe = bool(record) and bool(re.search(r"STRAGGLER|\((CRITICAL|WARNING)\)", said))
        right = names_it and (names_rank or not fault.is_of_a_rank)
        return right, severe and not right, said

    return run
