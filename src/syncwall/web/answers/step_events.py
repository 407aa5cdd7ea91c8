"""What happens in a step, one sentence for each moment worth stopping at.

Holds `events_of`, `phases_of` and `verdict_of`, and `said_time` and `said_bytes`. Workers are
counted from 1 in words.
"""

from math import isfinite
from typing import Any

from syncwall import units
from syncwall.show.numbers import byte_size, duration, percent, plural
from syncwall.units import Dimension


def events_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Moments in order, each with its phase (1 to 5) and a sentence."""
    found = [_dealt(answer), _forward(answer)]
    found += [_flight(one, answer) for one in answer["flights"]]
    found += [_backward(answer), _barrier(answer), _update(answer), _end(answer)]
    return sorted(found, key=lambda event: (event["at_s"], event["phase"]))


def phases_of(a: dict[str, Any]) -> list[dict[str, Any]]:
    """The five phases as a worker that is not slow lives through them."""
    worker, marks = _steady(a), a["marks"]
    ends = [0.0, *(marks[name][worker] for name in ("forward_s", "backward_s", "met_s", "end_s"))]
    names = ("Data partitioning", "Forward", "Backward", _barrier_name(a), "Update")
    starts = [0.0, 0.0, *ends[1:-1]]
    return [
        {"name": name, "start_s": start_s, "end_s": end_s, "seconds": end_s - start_s}
        for name, start_s, end_s in zip(names, starts, ends, strict=True)
    ]


def verdict_of(a: dict[str, Any]) -> str:
    """What the picture says, in one sentence."""
    share = a["shares"][_steady(a)]
    if a["lost_s"] > 0:
        usual, now = said_time(a["step_s"]), said_time(a["slow_step_s"])
        several = a["dp"] > 1
        who = f"Worker {a['worker'] + 1}" if several else "The only worker"
        all_ = f" for all {a['dp']:,} workers" if several else ""
        return (
            f"{who} computes {a['slow']:g} times slower: the step takes {now} "
            f"instead of {usual}{all_}"
        )
    waits = share["wires_s"] / max(a["span_s"], 1e-30)
    if a["dp"] == 1 and a["cp"] == 1:
        return "One worker: nobody to exchange gradients with, nobody to wait for"
    if a["dp"] == 1:
        return (
            f"One worker, whose {a['cp']} ranks share every sequence: in the last micro batch they "
            f"wait {said_time(share['wires_s'])} of {said_time(a['span_s'])} ({percent(waits, 1)}) "
            "for each other's weights and gradients"
        )
    return (
        f"All {a['dp']:,} workers are equally fast: in the last micro batch each waits "
        f"{said_time(share['wires_s'])} of {said_time(a['span_s'])} ({percent(waits, 1)}) for the "
        "others' data"
    )


def _steady(a: dict[str, Any]) -> int:
    """The first worker that is not the slow one."""
    return 0 if a["worker"] else min(1, a["workers"] - 1)


def _event(at_s: float, phase: int, text: str, **more: Any) -> dict[str, Any]:
    return {"at_s": at_s, "phase": phase, "text": text, **more}


def _dealt(a: dict[str, Any]) -> dict[str, Any]:
    micro = f"micro batch {a['microbatches']} of {a['microbatches']}"
    before = ", the only one"
    if a["microbatches"] > 1:
        same = "do the same without the update" if a["at_once"] else "only add up gradients"
        before = f"; the ones before {same}"
    who = f"each of {a['dp']:,} workers" if a["dp"] > 1 else "the only worker"
    has = f"{plural(a['sequences_each'], 'sequence')} ({a['tokens_each']:,} tokens)"
    return _event(
        0.0,
        1,
        (
            f"Data partitioning: {who} has its own {has} of the step. Drawn is {micro}{before}. "
            "Reading data is taken as 0 s: loaders work ahead."
        ),
    )


def _forward(a: dict[str, Any]) -> dict[str, Any]:
    marks = a["marks"]["forward_s"]
    slow = _slower(a, "forward_s")
    tokens = f"{a['micro_batch']} × {a['seq']:,} tokens"
    parts = ""
    if a["cp"] > 1:
        each = f"{a['seq'] / a['cp']:,.0f} tokens of each sequence"
        parts = f"; each of {a['cp']} context-parallel ranks has {each} and gets the others' keys"
        parts += " and values"
    text = f"Forward: {tokens} pass every layer in {said_time(min(marks))}{slow}{parts}."
    return _event(0.0, 2, text)


def _flight(one: dict[str, Any], a: dict[str, Any]) -> dict[str, Any]:
    phase = {"forward": 2, "backward": 3, "update": 5}[one["part"]]
    if one["kind"] == "gradients" and one["start_s"] >= min(a["marks"]["backward_s"]):
        phase = 4
    who = _late(one, a)
    size, took = said_bytes(one["bytes"]), said_time(one["moving_s"])
    if one["kind"] == "weights":
        gather = f"the weights of {one['name']}, {size}, are gathered from {_all(a)} in {took}"
        text = f"{_PHASES[phase]}: {gather}{_beside(one, a)}{who}."
    elif one["kind"] == "gradients":
        text = (
            f"{_PHASES[phase]}: gradients of {one['name']} are ready; {_calls(one, a)} "
            f"({one['operation']}, {size}) for {took}{_beside(one, a)}{who}."
        )
    else:
        text = (
            f"{_PHASES[phase]}: tokens of {one['name']} go to their experts and back, {took}{who}."
        )
    return _event(one["start_s"], phase, text)


def _backward(a: dict[str, Any]) -> dict[str, Any]:
    marks = a["marks"]
    took = min(e - s for s, e in zip(marks["forward_s"], marks["backward_s"], strict=True))
    leaving = any(one["kind"] == "gradients" for one in a["flights"])
    how = (
        ", and gradients leave as soon as they are ready"
        if leaving and a["overlap"]
        else ", and every layer waits until its gradients have been exchanged"
        if leaving
        else ""
    )
    text = f"Backward: layers in reverse order in {said_time(took)}{_slower(a, 'backward_s')}{how}."
    return _event(min(marks["forward_s"]), 3, text)


def _barrier(a: dict[str, Any]) -> dict[str, Any]:
    """From the first worker that is through with its backward pass until all have the sum."""
    ended, met = a["marks"]["backward_s"], a["marks"]["met_s"]
    if not _exchanged(a):
        return _event(max(ended), 4, "No barrier: this layout exchanges no gradients here.")
    left = max(met) - max(ended)
    exposed = f"{said_time(left)} of the exchange" if left > 0 else "none of the exchange"
    waits = max(ended) - min(ended)
    late = f" The others wait {said_time(waits)} for worker {a['worker'] + 1}." if waits > 0 else ""
    what = "the gradients of its shard" if _shards(a) else "all gradients"
    who = "worker" if a["dp"] > 1 else "rank"
    text = f"{_barrier_name(a)}: no {who} can go on without the sum of {what} over {_all(a)}"
    return _event(min(ended), 4, f"{text}; {exposed} is not hidden.{late}")


def _barrier_name(a: dict[str, Any]) -> str:
    """After what adds up gradients: all-reduces with DDP, reduce-scatters with sharding."""
    return f"{' and '.join(_exchanged(a))} barrier".capitalize() if _exchanged(a) else "No barrier"


def _exchanged(a: dict[str, Any]) -> list[str]:
    """Kinds of collectives that gradients take."""
    of = (one["operation"] for one in a["flights"] if one["kind"] == "gradients")
    return list(dict.fromkeys(each for name in of for each in name.split(" and ") if each))


def _shards(a: dict[str, Any]) -> bool:
    """True if each worker updates a part of the weights only."""
    return bool(a["shard"] != "ddp" and a["dp"] * a["cp"] > 1)


def _all(a: dict[str, Any]) -> str:
    """Who adds up gradients: ranks that share a sequence hold the same weights, too."""
    if a["cp"] == 1:
        return "all workers"
    ranks = f"all {a['dp'] * a['cp']:,} ranks with the same weights"
    return f"{ranks} (dp {a['dp']:,} × cp {a['cp']})" if a["dp"] > 1 else f"{ranks} (cp {a['cp']})"


def _update(a: dict[str, Any]) -> dict[str, Any]:
    met, end = a["marks"]["met_s"], a["marks"]["end_s"]
    took = min(e - s for s, e in zip(met, end, strict=True))
    does = "every worker has the same sum and takes the same step of the optimizer"
    if _shards(a):
        who = "every worker" if a["cp"] == 1 else "every rank"
        does = f"{who} updates its own shard with the optimizer"
    elif a["dp"] == 1:
        does = "the only worker takes a step of the optimizer"
    return _event(max(met), 5, f"Update: {does}, {said_time(took)}.")


def _end(a: dict[str, Any]) -> dict[str, Any]:
    micro = plural(a["microbatches"], "micro batch", "micro batches")
    whole = f"The whole step of {micro} takes {said_time(a['step_s'])}"
    if a["lost_s"] > 0:
        slow = f"with worker {a['worker'] + 1} {a['slow']:g} times slower"
        whole += f", {said_time(a['slow_step_s'])} {slow}: all {a['dp']:,} workers lose "
        whole += said_time(a["lost_s"])
    return _event(a["span_s"], 5, f"{whole}.")


_DECIMAL = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_PHASES = {2: "Forward", 3: "Backward", 4: "Barrier", 5: "Update"}


def _calls(one: dict[str, Any], a: dict[str, Any]) -> str:
    if a["shard"] == "ddp" and one["calls"] > 1:
        return f"{one['calls']:,} buckets of up to {byte_size(a['bucket_bytes'])} travel"
    return "one bucket travels" if a["shard"] == "ddp" else "they travel layer by layer"


def _beside(one: dict[str, Any], a: dict[str, Any]) -> str:
    """What is computed meanwhile: on workers that are not slow, or else on the slow one."""
    middle = (one["start_s"] + one["end_s"]) / 2
    name = _computed(a, _steady(a), middle)
    if name:
        return f" while {name} {'are' if ' to ' in name else 'is'} computed"
    name = _computed(a, a["worker"], middle)
    return (
        f" while only worker {a['worker'] + 1} computes, {name}"
        if name
        else (" while nothing is computed")
    )


def _computed(a: dict[str, Any], worker: int, at_s: float) -> str:
    for chunk in a["chunks"]:
        if chunk["starts"][worker] <= at_s < chunk["ends"][worker]:
            return str(chunk["name"])
    return ""


def _late(one: dict[str, Any], a: dict[str, Any]) -> str:
    waits = max(one["ready_s"]) - min(one["ready_s"])
    if a["slow"] <= 1 or waits <= 0:
        return ""
    return f"; worker {one['last_ready'] + 1} is ready {said_time(waits)} after the first"


def _slower(a: dict[str, Any], mark: str) -> str:
    marks = a["marks"][mark]
    later = marks[a["worker"]] - min(marks)
    if a["slow"] <= 1 or later <= 0:
        return ""
    return f" (worker {a['worker'] + 1} is {said_time(later)} behind)"


def said_time(seconds: float) -> str:
    """Three figures of a time, whose unit stays beside them."""
    return duration(max(seconds, 0.0)).replace(" ", "\u00a0") if isfinite(seconds) else "no end"


def said_bytes(size: float) -> str:
    """Three figures of a size, in decimal units."""
    if not isfinite(size):
        return "no end of bytes"
    unit = next((unit for unit, least in _DECIMAL if size >= least), "B")
    return units.format(size, Dimension.BYTES, digits=3, unit=unit).replace(" ", "\u00a0")
