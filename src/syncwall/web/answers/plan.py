"""The numbers of the Plan page.

Holds `searched`, `yours`, `compared` and `settings`, a run as those of a framework.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from syncwall import units
from syncwall.answer import Prediction, predict
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.settings.formats import format_named
from syncwall.describe.settings.writing import written
from syncwall.plan.answers import Plan, ties
from syncwall.plan.choices import SEARCHED
from syncwall.plan.search import Candidate, SearchResult, differences, search
from syncwall.plan.space import Space, size_of
from syncwall.plan.tuning import TUNABLE
from syncwall.problems import InputError, Problem
from syncwall.records import plain
from syncwall.show.blocks import Cell, Table, ledger
from syncwall.show.layout import columns, layout_words
from syncwall.show.numbers import duration, gigabytes, many, percent, signed
from syncwall.show.write.parts import (
    Markup,
    cause_bar,
    cause_name,
    scrolled,
    table,
    tag,
    unseen,
)
from syncwall.units import Dimension
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.questions import AskedComparison, AskedRun, AskedSettings, Search, checked
from syncwall.work.memory import usable_bytes

_FAMILIES: Final = 400
"""Points of the scatter that are neither best nor on the front."""
_MOST_BATCH: Final = 10_000_000
_MOST_LAYOUTS: Final = 600_000_000
"""No machine looks at more in the time of a search."""


def yours(asked: Search) -> dict[str, Any]:
    """What is predicted for the run as it stands, as a row of the best; or why it cannot be."""
    now, wrong = _yours(asked.run)
    if now is None:
        return {"yours": None, "yours_wrong": wrong}
    run, batch = now.run, int(now.run.layout.global_batch or 1)
    found = SearchResult(run, now.pricing, batch, {}, 1)
    plan = Plan(run, found, [], asked.objective, batch, now, asked.usd_per_gpu_hour)
    return {"yours": _rows(plan, plain(plan))[-1], "yours_wrong": ""}


def _ignored(share: float, **more: Any) -> None:
    """Nobody wants to hear of it."""


def searched(asked: Search, *, progress: Callable[..., None] = _ignored) -> Any:
    """The best layouts, the front, all families, and what the user has now."""
    pinned = _pinned(asked)
    base = asked.run.model_copy(update={"layout": {}}).run()
    batch = _batch(pinned.pop("global_batch", None))
    sizes = [base.cluster.using(nodes=count) for count in dict.fromkeys(asked.nodes)]
    _check_size(base, sizes or [base.cluster], batch, pinned)
    so_far: dict[str, Any] = {}

    def better(one: Candidate) -> None:
        size = f"{duration(one.step_s)} a step on {one.gpus:,} GPUs"
        so_far["best"] = {
            "step_s": one.step_s,
            "gpus": one.gpus,
            "memory_bytes": one.memory_bytes,
            "said": f"{size}, {layout_words(one.layout)}",
        }

    found = search(
        base.model,
        sizes or base.cluster,
        seq=base.seq,
        global_batch=batch,
        software=base.software,
        pinned=pinned,
        better=better,
        progress=lambda share: progress(share, **so_far),
    )
    most = float("inf") if asked.within_s is None else asked.within_s
    best = found.best(asked.top, asked.objective, within_s=most)
    now, wrong = _yours(asked.run) if asked.beside_yours else (None, "")
    plan = Plan(base, found, best, asked.objective, batch, now, asked.usd_per_gpu_hour)
    return _answer(plan) | {
        "yours_wrong": wrong,
        "limit_bytes": usable_bytes(base.cluster.device),
        "memory_size_bytes": float(base.cluster.device.memory.size_bytes),
    }


def _batch(stated: int | None) -> int:
    """Sequences of one step."""
    if stated is None or stated > _MOST_BATCH:
        said = "write the sequences of one step" if stated is None else f"at most {_MOST_BATCH:,}"
        raise InputError.of(said, key="layout.global_batch")
    return stated


def _check_size(base: Run, clusters: Sequence[Cluster], batch: int, pinned: dict[str, Any]) -> None:
    """Refuse what would not be done in time."""
    space = Space.of(base.model, base.seq, batch, base.software, pinned)
    if size_of(space, clusters, _MOST_LAYOUTS) > _MOST_LAYOUTS:
        said = f"more than {_MOST_LAYOUTS:,} layouts are too many: keep some fields of the layout"
        raise InputError.of(said, key="keep")


def _answer(plan: Plan) -> dict[str, Any]:
    record: dict[str, Any] = plain(plan)
    rows = _rows(plan, record)
    for row, tie in zip(rows, ties([one.prediction for one in plan.best]), strict=False):
        row["tie"] = tie
    tokens = plan.global_batch * plan.run.seq
    for point, on_front in zip(record["front"], plan.found.front, strict=True):
        point["tokens_per_s_per_gpu"] = tokens / point["step_s"] / point["gpus"]
        point["said"] = layout_words(on_front.layout())
        del point["layout"]
    return record | {
        "families": _families(plan.found, tokens),
        "tokens": tokens,
        "has_price": plan.price_usd_per_gpu_hour is not None,
    }


def _rows(plan: Plan, record: dict[str, Any]) -> list[dict[str, Any]]:
    """The best and, at last, the run as it stands, with what a table says of each."""
    found = [one.prediction for one in plan.best] + ([plan.now] if plan.now else [])
    rows = [*record["best"], *([record["yours"]] if plan.now else [])]
    for row, one in zip(rows, found, strict=True):
        row["said"] = layout_words(one.run.layout)
        row["nodes"] = one.run.nodes
        row["keys"] = keys(one.run.layout)
        row["cells"] = {name: cells[0] for name, cells in columns([one.run.layout]).items()}
        row["cost"] = plan.cost(one)
        row["texts"] = _texts(one, plan.cost(one))
    return rows


def _texts(one: Prediction, cost: float) -> dict[str, str]:
    """The numbers of a row as its cells say them."""
    return {
        "step": duration(one.step_s),
        "80% interval": "–".join(f"{bound:.3g}" for bound in one.step_interval_s),
        "tokens/s/GPU": f"{one.tokens_per_s_per_gpu:,.0f}",
        "MFU": percent(one.mfu, 1),
        "GB": f"{one.memory_bytes / 1e9:.3g}",
        "waits": percent(one.exposed_s / one.step_s),
        "cost": many(cost),
        "GPUs": f"{one.run.gpus:,}",
    }


def _families(found: SearchResult, tokens: int) -> list[dict[str, Any]]:
    """The fastest layout of each family."""
    return [
        {
            "gpus": one.gpus,
            "tokens_per_s_per_gpu": tokens / one.step_s / one.gpus,
            "memory_bytes": one.memory_bytes,
            "said": layout_words(one.layout),
        }
        for one in found.untuned(_FAMILIES)
    ]


def _pinned(asked: Search) -> dict[str, Any]:
    """Fields that stay: those that the user keeps, and all that no search chooses."""
    unknown = [name for name in asked.keep if name not in asked.run.layout]
    if unknown:
        raise InputError(Problem("", 0, 0, f'the layout does not state "{name}"', "keep") for name in unknown)
    kept: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in asked.run.layout.items():
        try:
            layout = checked(Layout, {key: value})
        except InputError as error:
            problems += error.under("layout").problems
            continue
        name = next((n for n, f in Layout.model_fields.items() if f.alias == key), key)
        if key in asked.keep or name not in (*SEARCHED, "dp"):
            kept[name] = getattr(layout, name)
    if problems:
        raise InputError(problems)
    return kept


def _yours(asked: AskedRun) -> tuple[Prediction | None, str]:
    """The run as it stands, or why it cannot be."""
    try:
        return predict(asked.run()), ""
    except InputError as error:
        return None, "; ".join(one.sentence() for one in error.problems)


def keys(layout: Layout) -> dict[str, Any]:
    """Searched and tuned fields of a layout as a run file writes them; null if left out."""
    fields = Layout.model_fields
    found = {}
    for name in (*SEARCHED, "dp"):
        value = getattr(layout, name)
        idle = name in ("cp", "ep", "etp", "pp", "virtual_stages") and value == 1
        found[fields[name].alias or name] = None if idle or name == "dp" else plain(value)
    for name in TUNABLE:
        value = getattr(layout, name)
        said = units.format(value, Dimension.BYTES) if name == "bucket_bytes" else value
        found[fields[name].alias or name] = None if value == fields[name].default else said
    return found


def compared(asked: AskedComparison) -> dict[str, Any]:
    """The ledger of each run, and where it spends more or less time than the first."""
    found = [_predicted(number, one) for number, one in enumerate(asked.runs)]
    first = found[0]
    names = [*asked.names, *(f"run {n}" for n in range(len(asked.names) + 1, 6))][: len(found)]
    html = _bars(found, names), scrolled("Seconds by cause", table(_causes(found, names)))
    return {
        "runs": [_beside(one, first) for one in found],
        "html": tag("div", html, class_="compare"),
    }


def _bars(found: list[Prediction], names: list[str]) -> Markup:
    """Ledgers as bars over each other."""
    longest = max(one.step_s for one in found)
    made = []
    for one, name in zip(found, names, strict=True):
        said = f"{duration(one.step_s)}, MFU {percent(one.mfu, 1)}, {gigabytes(one.memory_bytes)}"
        said += "" if one.fits else ": does not fit"
        words = tag("span", layout_words(one.run.layout), class_="small")
        head = tag("b", name), words, tag("span", said, class_="small quiet")
        drawn = cause_bar(ledger("", one.ledger, least=0), data={"width": 100 * one.step_s / longest})
        inside = tag("div", head, class_="row"), drawn
        made.append(tag("div", inside, class_="compare-run", data={"value": one.step_s}))
    return tag("div", made, class_="compare-bars")


def _causes(found: list[Prediction], names: list[str]) -> Table:
    """Seconds by cause, and beside each run how many more they are than of the first."""
    first, *others = found
    more = [(name, unseen(f"more than {names[0]}")) for name in names[1:]]
    apart = [{one.cause: one.seconds for one in differences(first, other)} for other in others]
    rows: list[tuple[str, ...]] = []
    for cause in Cause:
        seconds = [float(one.ledger.get(cause, 0.0)) for one in found]
        if max(seconds) < LEAST_SHARE * first.step_s:
            continue
        texts = [duration(each) if each else "–" for each in seconds]
        pairs = ((text, _apart(far.get(cause, 0.0))) for text, far in zip(texts[1:], apart, strict=True))
        name = Cell(cause_name(cause), row={"cause": str(cause)})
        rows.append((name, texts[0], *chain(*pairs)))
    steps = ((duration(one.step_s), _apart(one.step_s - first.step_s)) for one in others)
    rows.append(("step", duration(first.step_s), *chain(*steps)))
    speeds = [f"{one.tokens_per_s_per_gpu:,.0f}" for one in found]
    rows.append(("tokens/s/GPU", speeds[0], *chain(*((speed, "") for speed in speeds[1:]))))
    head = ("cause", names[0], *chain(*more))
    return Table(head, tuple(rows), strong=frozenset({len(rows) - 2}))


def _apart(seconds: float) -> Cell:
    kind = f"apart {'worse' if seconds > 0 else 'better'}"
    return Cell(signed(seconds) if seconds else "", kind, data={"apart": seconds})


def _predicted(number: int, asked: AskedRun) -> Prediction:
    try:
        return predict(asked.run())
    except InputError as error:
        raise error.under(f"runs.{number}") from None


def _beside(one: Prediction, first: Prediction) -> dict[str, Any]:
    plain_data = plain(one.step)
    names = ("step_s", "mfu", "tokens_per_s_per_gpu", "memory_bytes", "fits", "ledger_s", "exposed_s")
    return {name: plain_data[name] for name in names} | {
        "said": layout_words(one.run.layout),
        "gpus": one.run.gpus,
        "differences": [{"cause": each.cause, "seconds": each.seconds} for each in differences(first, one)],
    }


def settings(asked: AskedSettings) -> dict[str, Any]:
    """The settings as `plan layouts --settings` writes them, and what they have no words for."""
    one = format_named(asked.format)
    run = prediction_of(asked.run).run
    made = written(
        run.layout,
        asked.format,
        seq=run.seq,
        nodes=run.nodes,
        gpus_per_node=run.gpus_per_node,
        model=run.model,
        software=run.software,
    )
    return {"text": made.text, "unsaid": list(made.unsaid), "suffix": one.suffix}
