"""The Predict page: its form, its numbers, fixes, what to change, a pinned run, a timeline,
files.

A proposal changes one thing; what the user left open stays open beside it.

What operations are is said once; the intervals are arrays of the same length. Times are whole
tenths of a microsecond.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from math import isfinite
from typing import Any, Final, cast

import yaml

from syncwall import catalogue
from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import Improvement, improvements, with_more_nodes
from syncwall.answer.timeline import Timeline, interval_count
from syncwall.catalogue import CatalogueKind
from syncwall.cause import Cause
from syncwall.describe import Run, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.settings.formats import formats
from syncwall.job.job_comparison import comparison
from syncwall.problems import InputError
from syncwall.records import json_text, plain
from syncwall.show.compare import doubt
from syncwall.show.field_words import key_words
from syncwall.show.layout import run_words
from syncwall.show.operation_words import Wording
from syncwall.show.prediction import assumed, evidence, why
from syncwall.timeline.streams import Interval
from syncwall.web.answers.prediction_parts import beside_parts, prediction_parts, proposal_parts
from syncwall.web.questions import AskedBeside, AskedRun, ExportKind
from syncwall.work.block import StepPhase, Stream, Task

MOST_EVENTS: Final = 30_000
"""Intervals of a trace, about 16 MB; more are refused before any is made."""


def predicted(asked: AskedRun) -> dict[str, Any]:
    """Step time with its interval, MFU, memory by cause, the ledger, and what it rests on."""
    prediction = prediction_of(asked)
    run = prediction.run
    return {
        **plain(prediction.step),
        "what": run_words(run),
        "why": why(prediction),
        "evidence": evidence(prediction),
        "assumed": assumed(prediction),
        "html": prediction_parts(prediction),
        "gpus": run.gpus,
        "nodes": run.nodes,
        "gpus_per_node": run.gpus_per_node,
        "seq": run.seq,
        "memory_size_bytes": float(run.cluster.device.memory.size_bytes),
        "model": run.model.title or run.model.name,
        "parameters": run.model.parameters,
        "cluster": run.cluster.title or run.cluster.name,
        "device": run.cluster.device.title or run.cluster.device.name,
        "layout": layout_fields(run),
    }


def layout_fields(run: Run) -> dict[str, Any]:
    """Every field of the layout, under the name that carries its unit."""
    return {name: plain(getattr(run.layout, name)) for name in type(run.layout).model_fields}


def prediction_of(asked: AskedRun) -> Prediction:
    """What is predicted for the run that was asked for."""
    return _predicted(asked.model_dump_json())


@lru_cache(maxsize=64)
def _predicted(text: str) -> Prediction:
    return predict(AskedRun.model_validate_json(text).run())


_NEXT: Final = 5


def next_steps(asked: AskedRun) -> dict[str, Any]:
    """The single changes of the layout that save most, each predicted, not guessed.

    Each with the fields to set (null: leave open) and what is then chosen otherwise (`also`).
    `more`: what more nodes bring, where no change of the layout helps or the run does not fit.
    """
    prediction = prediction_of(asked)
    found = improvements(prediction, _NEXT)
    best = [(one, _proposal(asked, prediction, one)) for one in found]
    grows = any(fields["nodes"] for _, fields in best)
    more = None if best and (prediction.fits or grows) else _more_nodes(prediction)
    last = [] if more is None else [(more, _proposal(asked, prediction, more))]
    return {
        "step_s": prediction.step_s,
        "fits": prediction.fits,
        "next": [fields for _, fields in best],
        "more": last[0][1] if last else None,
        "html": proposal_parts(prediction, best + last, more is not None),
    }


def _more_nodes(prediction: Prediction) -> Improvement | None:
    """Twice the nodes, or more, if it then fits or the step gets shorter."""
    one = next((one for one in with_more_nodes(prediction) if one.fits), None)
    useful = one is not None and (one.gained_s > 0 or not prediction.fits)
    return one if useful else None


def _proposal(asked: AskedRun, now: Prediction, one: Improvement) -> dict[str, Any]:
    fields = one.fields or {"dp": None, "shard_degree": None}
    if asked.layout.get("global_batch") is None:  # else it would follow the replicas
        fields = {**fields, "global_batch": int(one.run.layout.global_batch)}
    return {
        "change": one.change,
        "gained_s": one.gained_s,
        "memory_bytes": one.memory_bytes,
        "also": {name: plain(value) for name, value in one.also.items()},
        **_size(now.run, one.run),
        "layout": {name: plain(value) for name, value in fields.items()},
    }


def _size(before: Run, after: Run) -> dict[str, int | None]:
    """Nodes, and how much of each is used, if they change; else null."""
    grows = after.nodes != before.nodes
    parts = grows and after.gpus_per_node < after.cluster.node.gpus
    return {
        "nodes": int(after.nodes) if grows else None,
        "gpus_per_node": int(after.gpus_per_node) if parts else None,
    }


_SIZE: Final = re.compile(r"[\s-]*\(?\d[\d.x]*\s?[BMT]\b.*|[\s-](small|medium|large|xl|mini)$", re.IGNORECASE)


def _family(title: str) -> str:
    """What models of several sizes have in common: "Llama 3.1" of "Llama 3.1 70B"."""
    return "Small, for experiments" if title.startswith("A ") else _SIZE.sub("", title) or title


@cache
def options() -> dict[str, Any]:
    """Models, clusters and frameworks of the catalogue, and what a field may be."""
    models = [lookup.model(name) for name in catalogue.names(CatalogueKind.MODEL)]
    clusters = [lookup.cluster(name) for name in catalogue.names(CatalogueKind.CLUSTER)]
    frameworks = [lookup.framework(name) for name in catalogue.names(CatalogueKind.FRAMEWORK)]
    return {
        "models": [
            {
                "name": one.name,
                "title": one.title or one.name,
                "family": _family(one.title or one.name),
                "aliases": one.aliases,
                "parameters": one.parameters,
                "active": one.parameter_count.active,
                "train_seq": one.train_seq,
            }
            for one in sorted(
                models, key=lambda one: (_family(one.title or one.name).lower(), one.parameters)
            )
        ],
        "clusters": [
            {
                "name": one.name,
                "title": one.title or one.name,
                "aliases": one.aliases,
                "device": one.device.name,
                "device_title": one.device.title or one.device.name,
                "gpus_per_node": one.gpus_per_node,
                "built_nodes": one.built_nodes,
            }
            for one in sorted(clusters, key=lambda one: (one.device.title or one.device.name, one.name))
        ],
        "frameworks": [{"name": one.name, "title": one.title} for one in frameworks],
        "precisions": [str(dtype) for dtype in Dtype],
        "settings": {name: one.title for name, one in formats().items()},
    }


def run_file(asked: AskedRun) -> str:
    """What was asked, as a run file."""
    asked.run()
    text: str = yaml.safe_dump(asked.fields(), sort_keys=False, allow_unicode=True)
    return text


def as_json(asked: AskedRun) -> str:
    """What `syncwall predict --json` prints."""
    return json_text(prediction_of(asked).to_dict())


def as_trace(asked: AskedRun) -> str:
    """One micro batch for Perfetto; so many intervals that nobody could load them are refused."""
    prediction = prediction_of(asked)
    count = interval_count(prediction)
    if count > MOST_EVENTS:
        said = f"{count:,} intervals in one micro batch are too many for a file (at most "
        raise InputError.of(f"{said}{MOST_EVENTS:,}): `syncwall predict --timeline FILE` writes them")
    return json.dumps(prediction.timeline().trace())


def as_page(asked: AskedRun) -> str:
    """What `syncwall report run.yaml --html` writes."""
    from syncwall.report import ReportRequest, report_answers
    from syncwall.show.article import article
    from syncwall.show.write.whole_files import page

    return page(article([report_answers(ReportRequest("run.yaml", run_file(asked), asked.run()))]))


_MADE: Final[dict[ExportKind, Callable[[AskedRun], str]]] = {
    ExportKind.YAML: run_file,
    ExportKind.JSON: as_json,
    ExportKind.PERFETTO: as_trace,
    ExportKind.HTML: as_page,
}


def exported(kind: ExportKind, asked: AskedRun) -> str:
    """The text of a file of this kind."""
    return _MADE[kind](asked)


_MEANT: Final = re.compile(r'did you mean "([^"]+)"')
_NEAR: Final = 2
"""Values that are offered for one problem."""
_TRIED: Final = 24
"""Values that are tried for one field."""
_LARGEST_POWER: Final = 16
_BLAMED: Final = {
    "layout.dp": ("layout.tp", "layout.pp", "layout.cp", "layout.dp", "nodes", "gpus"),
    "layout.global_batch": ("layout.global_batch", "layout.micro_batch"),
    "layout.shard_degree": ("layout.shard_degree", "layout.shard"),
    "layout.virtual_stages": ("layout.virtual_stages", "layout.pp"),
    "layout.pp": ("layout.pp", "layout.virtual_stages"),
    "gpus": ("gpus",),
}
"""Fields of which another value may solve a problem that is booked on one of them."""


def fixes(asked: AskedRun) -> dict[str, Any]:
    """For each problem of the run the nearest values without it, and whether leaving it out helps.

    Each has the problem's key (`where`), what it does (`said`) and the keys to set (null: leave
    open). Those are said that leave the fewest problems, so none if a later one is the only cause.
    """
    wrong = _problems(asked.fields())
    found = [one for where, what in wrong.items() for one in _fixes(asked, where, what, wrong)]
    least = min((one["left"] for one in found), default=0)
    return {"fixes": [one for one in found if one["left"] == least]}


def _problems(fields: dict[str, Any]) -> dict[str, str]:
    """What is wrong by its key; nothing if the run is possible."""
    try:
        AskedRun.model_validate(fields).run()
    except InputError as error:
        return {one.key: one.sentence() for one in error.problems}
    except ValueError:  # no run at all
        return {"": ""}
    return {}


def _fixes(asked: AskedRun, where: str, what: str, wrong: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Changes after which `where` is no problem any more."""
    found = 0
    for key, value, is_meant in _changes(asked, where, what):
        left = _problems(_with(asked, key, value))
        if where not in left and (is_meant or len(left) < len(wrong)):
            name = key_words(key).partition(" (")[0]
            said = f"leave {name} open" if value is None else f"{name} {value}"
            yield {"where": where, "said": said, "keys": {key: value}, "left": len(left)}
            found += 1
            if found == _NEAR:
                return


def _changes(asked: AskedRun, where: str, what: str) -> Iterator[tuple[str, Any, bool]]:
    """Keys and values to try, the nearest first, and whether just that was meant; None: open."""
    keys = [key for key in _BLAMED.get(where, (where,)) if _stated(asked, key) is not None]
    meant = _MEANT.search(what)
    if meant and where in keys:
        yield where, meant[1], True
    for key in keys:
        stated = _stated(asked, key)
        if isinstance(stated, int) and not isinstance(stated, bool):
            yield from ((key, value, False) for value in _near(stated))
    yield from ((key, None, False) for key in keys if key not in ("model", "cluster"))


def _near(stated: int) -> list[int]:
    """Powers of two and their multiples around a count, the nearest first."""
    powers = [2**n for n in range(_LARGEST_POWER)]
    multiples = {side * p for p in powers for side in (stated // p, -(-stated // p))}
    wanted = {value for value in {*powers, *multiples} if value >= 1} - {stated}
    return sorted(wanted, key=lambda value: (max(value / stated, stated / value), value))[:_TRIED]


def _stated(asked: AskedRun, key: str) -> Any:
    part, _, name = key.partition(".")
    found = getattr(asked, part, None)
    return found.get(name) if isinstance(found, dict) and name else found


def _with(asked: AskedRun, key: str, value: Any) -> dict[str, Any]:
    """What was asked with another value of one key."""
    fields = asked.fields()
    part, _, name = key.partition(".")
    if not name:
        return {**fields, part: value}
    return {**fields, part: {**fields.get(part, {}), name: value}}


def beside(asked: AskedBeside) -> dict[str, Any]:
    """What `syncwall compare` says of a run beside a pinned one: differences and their doubt."""
    pinned, now = _pinned(asked.pinned), prediction_of(asked.run)
    pair = [(pinned, None), (now, None)]
    (one,), (alike,) = comparison(pair).beside, comparison(pair, alike=True).beside
    return {
        **plain(alike),
        "doubt": doubt(alike),
        "pinned": {
            "what": run_words(pinned.run),
            "step_s": pinned.step_s,
            "exposed_s": pinned.exposed_s,
            "ledger_s": plain(pinned.ledger),
        },
        "html": beside_parts(one, alike),
    }


def _pinned(asked: AskedRun) -> Prediction:
    """What is predicted for the pinned run; its problems say whose they are."""
    try:
        return prediction_of(asked)
    except InputError as error:
        raise error.under("pinned") from None


MOST: Final = 60_000
"""Intervals that a page draws; more are refused before any is made."""
_TICKS: Final = 1e7
"""In a second."""
_LANES: Final = {
    Stream.COMPUTE: ("compute", "computation"),
    Stream.TENSOR: ("TP", "tensor-parallel communication"),
    Stream.CONTEXT: ("CP", "context-parallel communication"),
    Stream.EXPERT: ("EP", "tokens on their way to experts"),
    Stream.GATHER: ("weights in", "sharded weights on their way in"),
    Stream.REDUCE: ("gradients out", "gradients on their way out"),
    Stream.PIPELINE: ("PP", "activations on their way to the next stage"),
    Stream.OFFLOAD: (
        "host",
        "activations and gradients on their way to the host's memory and back",
    ),
}
_LATE_HOST: Final = "The host needs longer to issue this block than the device to run it; drawn at its end."
_PHASES: Final = {
    StepPhase.FORWARD: "forward",
    StepPhase.BACKWARD: "backward",
    StepPhase.FINISH: "optimizer",
}


def timeline(asked: AskedRun) -> dict[str, Any]:
    """Every operation and wait of the last micro batch and the optimizer step, in columns."""
    prediction = prediction_of(asked)
    count = interval_count(prediction)
    if count > MOST:
        said = f"{count:,} intervals in one micro batch are too many to draw (at most {MOST:,})"
        raise InputError.of(said)
    found = prediction.timeline()
    if not isfinite(found.end_s):
        raise InputError.of("the step never ends: there is nothing to draw")
    run, work = prediction.run, prediction.work
    return {
        "ticks_per_s": _TICKS,
        "end": _ticks(found.end_s),
        "end_s": found.end_s,
        "step_s": prediction.step_s,
        "microbatches": float(work.microbatches),
        "pipeline_ranks": int(run.layout.pp),
        "earlier_s": found.earlier_s,
        "phases": [
            {"name": _PHASES[span.phase], "start": _ticks(span.start_s), "end": _ticks(span.end_s)}
            for span in found.spans
            if span.end_s > span.start_s
        ],
        **_Columns(prediction, found).answer(),
    }


class _Columns:
    """Intervals as arrays, with a list of the operations that they are of."""

    def __init__(self, prediction: Prediction, found: Timeline) -> None:
        self._found = found
        self._rounds = _rounds(prediction)
        self._wording = Wording(prediction)
        self._priced: dict[tuple[str, str], int] = {}

    def answer(self) -> dict[str, Any]:
        """Lanes, operations and intervals."""
        operations: list[dict[str, Any]] = []
        known: dict[object, int] = {}
        op: list[int] = []
        every = [one for one in (*self._found.intervals, *self._found.waits) if _is_drawn(one)]
        for interval in every:
            key = _key(interval)
            at = known.get(key)
            if at is None:
                at = known[key] = len(operations)
                operations.append(self._described(interval))
            op.append(at)
        starts = [_ticks(interval.start_s) for interval in every]
        ends = [_ticks(interval.end_s) for interval in every]
        used = {operation["stream"] for operation in operations}
        return {
            "lanes": [
                {"stream": str(stream), "name": name, "about": about}
                for stream, (name, about) in _LANES.items()
                if str(stream) in used
            ],
            "operations": operations,
            "priced": [{"formula": formula, "source": source} for formula, source in self._priced],
            "op": op,
            "start": starts,
            "duration": [end - start for start, end in zip(starts, ends, strict=True)],
            "layer": [self._layer(interval) for interval in every],
        }

    def _described(self, interval: Interval) -> dict[str, Any]:
        said: dict[str, Any] = {
            "name": interval.name,
            "cause": interval.cause,
            "stream": str(interval.stream),
            "phase": str(interval.phase),
            "block": interval.block,
            "layers": self._rounds[str(interval.phase), interval.block],
        }
        if interval.what is None:
            notes = [_LATE_HOST] if interval.cause is Cause.HOST else []
            name = f"waits for {_awaited(interval.name)}"
            return said | {"name": name, "wait": True, "notes": notes}
        words = self._wording.of(cast("Task", interval.what))
        key = (words.formula, words.source)
        return said | {
            "shape": words.shape,
            "seconds": words.seconds,
            "flops": words.flops,
            "hbm_bytes": words.hbm_bytes,
            "sent_bytes": words.sent_bytes,
            "rate": words.rate,
            "rate_unit": words.rate_unit,
            "of_peak": words.of_peak,
            "priced": self._priced.setdefault(key, len(self._priced)),
        }

    def _layer(self, interval: Interval) -> int:
        """The number of the layer from 1 on; backward they are met from the last on."""
        if interval.phase in (StepPhase.FORWARD, StepPhase.FINISH):
            return interval.round + 1
        return self._rounds[str(interval.phase), interval.block] - interval.round


def _is_drawn(interval: Interval) -> bool:
    """False for what is shorter than a tick."""
    return (interval.end_s - interval.start_s) * _TICKS >= 1.0


def _key(interval: Interval) -> object:
    if interval.what is not None:
        return interval.name, id(interval.what), interval.phase, interval.block
    return interval.name, interval.cause, interval.phase, interval.block


def _awaited(name: str) -> str:
    """What is waited for; streams by their words."""
    return next((about for stream, (_, about) in _LANES.items() if stream == name), name)


def _rounds(prediction: Prediction) -> dict[tuple[str, str], int]:
    """How often each block is done, by phase."""
    stage = prediction.work.stages[-1]
    found: dict[tuple[str, str], int] = {}
    parts = (
        ((StepPhase.FORWARD,), stage.forward),
        ((StepPhase.BACKWARD, StepPhase.RECOMPUTE), stage.last_backward),
        ((StepPhase.FINISH,), stage.finish),
    )
    for phases, blocks in parts:
        for block in blocks:
            found |= {(str(phase), block.name): round(float(block.rounds)) for phase in phases}
    return found


def _ticks(seconds: float) -> int:
    return round(seconds * _TICKS)
