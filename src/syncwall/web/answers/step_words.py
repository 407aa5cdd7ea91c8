"""Sentences about an all-reduce and a pipeline, one for each moment worth stopping at.

Holds `collective_events`, `collective_verdict`, `pipeline_events` and `pipeline_verdict`.
"""

from collections.abc import Sequence
from typing import Any, Final

from syncwall.show.numbers import percent, plural
from syncwall.web.answers.step_events import said_bytes, said_time
from syncwall.web.lessons.pipeline import Slot


def collective_events(drawn: dict[str, Any], a: dict[str, Any], way: str) -> list[dict[str, Any]]:
    """One sentence a step, and one for the end."""
    each_s = drawn["step_s"] or 1.0
    found = [
        {
            "at_s": step * each_s,
            "phase": _collective_phase(step, drawn, a, way),
            "text": _ring_step(step, drawn, a) if way == "ring" else _tree_step(step, drawn),
        }
        for step in range(drawn["steps"])
    ]
    took = f" after {said_time(drawn['seconds'])}" if drawn["seconds"] else ""
    text = f"Every worker has the sum of all {a['workers']}{took}."
    return [*found, {"at_s": drawn["steps"] * each_s, "phase": 2, "text": text}]


def _collective_phase(step: int, drawn: dict[str, Any], a: dict[str, Any], way: str) -> int:
    if way == "ring":
        return 1 if step < a["workers"] - 1 else 2
    return 1 if not any(move[0] <= step and not move[4] for move in drawn["moves"]) else 2


def _ring_step(step: int, drawn: dict[str, Any], a: dict[str, Any]) -> str:
    half = a["workers"] - 1
    first = step < half
    number = f"Step {step + 1} of {drawn['steps']}"
    if first:
        does = "passes one chunk on to the next, which adds its own part to it"
        after = f"sums of {step + 2} parts" if step + 1 < half else "one chunk with the whole sum"
        text = f"{number}, reduce-scatter: every worker {does}; then each holds {after}."
    else:
        does = "passes a finished chunk on to the next, which keeps it"
        have = step - half + 2
        text = f"{number}, all-gather: every worker {does}; then each has {have} of {a['workers']}."
    if drawn["seconds"] and drawn["real_steps"]:
        size, took = a["bytes"] / a["ranks"], drawn["seconds"] / drawn["real_steps"]
        text += (
            f" The real ring has {a['ranks']:,} ranks: {drawn['real_steps']:,} steps of "
            f"{said_bytes(size)}, {said_time(took)} each."
        )
    return text


def _tree_step(step: int, drawn: dict[str, Any]) -> str:
    up = sum(1 for move in drawn["moves"] if move[0] == step and move[4])
    down = sum(1 for move in drawn["moves"] if move[0] == step and not move[4])
    parts = [f"{plural(up, 'chunk')} on the way up, added to what is there"] if up else []
    parts += [f"{plural(down, 'finished chunk')} on the way down from the root"] if down else []
    return f"Step {step + 1} of {drawn['steps']}: {', '.join(parts)}."


def collective_verdict(a: dict[str, Any]) -> str:
    """Which way NCCL is expected to take, and what the others would."""
    if a["chosen"] is None:
        return "This run has one data-parallel rank: there is nothing to sum up"
    others = [
        f"a {name} would take {said_time(a[name]['seconds'])}"
        for name in ("ring", "tree")
        if a[name]["seconds"] is not None and a[name]["name"] != a["chosen"]
    ]
    beside = f"; {', '.join(others)}" if others else ""
    return (
        f"{said_bytes(a['bytes'])} over {a['ranks']:,} ranks: NCCL is expected to take "
        f"{a['chosen']}, {said_time(a['chosen_s'])}{beside}"
    )


def pipeline_events(
    slots: Sequence[Slot], stages: int, micro: int, virtual: int
) -> tuple[list[dict[str, Any]], list[float]]:
    """What all stages do whenever one of them begins something, and when each phase begins.

    Filling ends with the first gradient of all, draining begins after the last forward pass of the
    rank that begins.
    """
    steady_s = min(s.start_s for s in slots if s.which in ("backward", "input"))
    drain_s = max(s.end_s for s in slots if s.rank == 0 and s.which == "forward")
    drain_s = max(drain_s, steady_s)
    names = ("Filling", "Forward and backward in turn", "Draining")
    found: list[dict[str, Any]] = []
    for at_s in sorted({slot.start_s for slot in slots}):
        if found and at_s - found[-1]["at_s"] < 1e-9 * max(at_s, 1e-9):
            continue
        phase = 1 if at_s < steady_s else 2 if at_s < drain_s else 3
        each = (_doing(slots, n, at_s, stages, micro, virtual) for n in range(stages))
        doing = ", ".join(f"stage {n + 1} {does}" for n, does in enumerate(each))
        found.append({"at_s": at_s, "phase": phase, "text": f"{names[phase - 1]}: {doing}."})
    end_s = max(slot.end_s for slot in slots)
    text = f"{_micro(micro)} passed forward and backward in {said_time(end_s)}: all that are drawn."
    return [*found, {"at_s": end_s, "phase": 3, "text": text}], [0.0, steady_s, drain_s]


_WHICH: Final = {"input": "input gradients", "weight": "weight gradients"}


def _doing(
    slots: Sequence[Slot], stage: int, at_s: float, stages: int, micro: int, virtual: int
) -> str:
    for slot in slots:
        if slot.rank == stage and slot.start_s <= at_s < slot.end_s:
            number = slot.micro + slot.way * (micro // 2) + 1
            part = f" in part {slot.stage // stages + 1}" if virtual > 1 else ""
            return f"{_WHICH.get(slot.which, slot.which)} {number}{part}"
    return "waits"


def pipeline_verdict(a: dict[str, Any]) -> str:
    """What the bubble costs with the schedule of the run, and what the slow stage does."""
    if a["slow"] > 1:
        return (
            f"Stage {a['worker'] + 1} computes {a['slow']:g} times slower and sets the pace: "
            f"{_micro(a['drawn'])} take {said_time(a['span_s'])} instead of "
            f"{said_time(a['usual_s'])}"
        )
    own, plain_s = a["run"], a["plain_bubble_s"]
    bubble_s = own["bubble_s"] if own else plain_s
    work_s = a["microbatches"] * (max(a["forward_s"]) + max(a["backward_s"]))
    share = bubble_s / max(bubble_s + work_s, 1e-30)
    said = (
        f"{a['pp']} stages stand still for {said_time(bubble_s)} of a step while the pipeline "
        f"fills and drains: {percent(share, 1)} with {_micro(a['microbatches'])}"
    )
    if own and own["schedule"] != "1f1b":
        drawn = "" if a["schedule"] == own["schedule"] else ", as drawn,"
        said += f" and {own['schedule']}; plain 1F1B{drawn} would have {said_time(plain_s)}"
    return said


def _micro(count: int) -> str:
    return plural(count, "micro batch", "micro batches")
