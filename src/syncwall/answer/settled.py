"""A user's run in which nothing is open any more.

Holds `settled`. What the user left open takes its likeliest value and is reported, so that the
answer can list it and widen its interval.
"""

from syncwall.answer.many import evaluated, likeliest_of
from syncwall.answer.open_fields import candidates, choices, least_recomputing
from syncwall.cost.software import framework
from syncwall.describe import Layout, Run
from syncwall.describe.choice import Choice, Dtype
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Recompute, Schedule
from syncwall.work.memory import step_memory

_CHOSEN = ("micro_batch", "virtual_stages", "recompute")
"""Fields of a layout that are chosen by time and memory."""


def settled(run: Run) -> tuple[Run, dict[str, str]]:
    """`run` with its open fields filled in, and what they were taken to be."""
    left = _left_open(run)
    run = _as_its_framework(run)
    family = framework(run.software.framework)
    if family.recompute is Recompute.NONE:  # usual, but a user wants to know what would fit
        family = family.model_copy(update={"recompute": None})
    chosen = [name for name in left if name in _CHOSEN]
    values = choices(run.model, run.layout, chosen, family)
    layouts, _ = candidates(run.model, run.layout, run.seq, run.gpus, values)
    size = run.cluster.device.memory.size_bytes
    layouts = least_recomputing(layouts, [_bytes(run, one) for one in layouts], size)
    if len(layouts) > 1:
        found = evaluated(run.model, run.cluster, layouts, run.seq, run.software)
        layouts = [likeliest_of(found, size).layout]
    if layouts:
        run = run.model_copy(update={"layout": layouts[0]})
    return run, {name: _value(run, name) for name in left}


def _as_its_framework(run: Run) -> Run:
    """`run` with the switches of the framework that it names, where it states none itself."""
    if "framework" not in run.software.model_fields_set:
        return run
    usual = switches(framework(run.software.framework), run.software.date, run.layout.shard)
    stated = run.layout.model_fields_set
    update = {name: value for name, value in usual.items() if name not in stated}
    if run.layout.precision is Dtype.FP16:
        update.pop("gradient_dtype", None)
    return run.model_copy(update={"layout": run.layout.model_copy(update=update)})


def _bytes(run: Run, layout: Layout) -> float:
    return float(step_memory(run.model, layout, run.seq).total)


def _left_open(run: Run) -> list[str]:
    """Names of the fields that matter and that nobody stated."""
    layout, software = run.layout, run.software
    pinned = layout.model_fields_set
    one_pass = layout.microbatches == 1 and "micro_batch" not in pinned
    open_here = [name for name in _CHOSEN if name not in pinned]
    woven = layout.pp > 1 and not ("schedule" in pinned and layout.schedule != Schedule.INTERLEAVED)
    if not woven and "virtual_stages" in open_here:
        open_here.remove("virtual_stages")  # a schedule that was stated has one chunk a rank
    if one_pass and "micro_batch" in open_here:
        open_here.remove("micro_batch")  # the batch itself was left open: one sequence each
    open_here += ["precision"] if "precision" not in pinned else []
    return open_here + [f for f in ("framework", "date") if f not in software.model_fields_set]


def _value(run: Run, name: str) -> str:
    if name in ("framework", "date"):
        return str(getattr(run.software, name) or "newest")
    value = getattr(run.layout, name)
    return value.text if isinstance(value, Choice) else str(value)
