"""Many runs that differ in some fields, predicted: one flat record each.

Holds `sweep` and `varied`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import NetworkModel
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cost.communication import Network
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Layout, Run, Software
from syncwall.describe.faults import faults_of
from syncwall.problems import InputError, did_you_mean

_OF_RUN: Final = ("model", "cluster", "nodes", "gpus_per_node", "gpus", "seq")
_OF_LAYOUT: Final = (
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "etp",
    "shard",
    "micro_batch",
    "global_batch",
    "virtual_stages",
    "recompute",
    "precision",
)
"""Fields of the layout that every record has."""


@takes_catalogue
def sweep(
    run: Run,
    *,
    network: NetworkModel | Network | None = None,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
    **fields: Any,
) -> list[dict[str, Any]]:
    """`run` with every combination of `fields`: one flat record of plain values each.

    Fields are those of a run, of its layout or of its software, each with a list of values or with
    one value; all else stays as it is, but replicas (`dp`) follow from the GPUs. A record is what
    `predict` says of that run, the parts of its ledger and of its memory by dotted names. A
    combination that cannot be run has a `problem` and no numbers. `pandas.DataFrame` takes the
    list as it is.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=4, layout=layout)
        >>> rows = sw.sweep(run, nodes=[4, 8], tp=[1, 2, 3])
        >>> [(row["gpus"], row["tp"], row["fits"]) for row in rows if not row["problem"]]
        [(32, 1, True), (32, 2, True), (64, 1, True), (64, 2, True)]
        >>> rows[2]["problem"]
        'tp 3 x cp 1 x pp 1 x dp 10 = 30, not the 32 GPUs in use; ...'
    """
    known = {*_OF_RUN, *Layout.model_fields, *Software.model_fields}
    for name in fields:
        if name not in known:
            raise InputError.of(f'a run has no field "{name}"{did_you_mean(name, known)}')
    rows = []
    for values in product(*map(_values, fields.values())):
        asked = dict(zip(fields, values, strict=True))
        try:
            one = varied_run(run, asked)
            found = dict(_record(predict(one, network=network, measured=measured, site=site)))
            rows.append({**_plain(asked), **found, "problem": None})
        except ValidationError as error:
            said = "; ".join(dict.fromkeys(message for _, message in faults_of(error, Run)))
            rows.append({**_plain(asked), "problem": said})
    return _of_one_shape(rows)


def varied_run(run: Run, fields: Mapping[str, Any]) -> Run:
    """`run` with other `fields`, of itself, of its layout or of its software, checked.

    Replicas are those that the GPUs then allow, and share the weights among all of them if they
    did before.
    """
    layout, stated = dict(run.layout), dict(run.software)
    layout["dp"] = None
    if run.layout.shard_degree == run.layout.dp * run.layout.cp:
        layout["shard_degree"] = None
    own: dict[str, Any] = {"model": run.model, "cluster": run.cluster, "seq": run.seq}
    if "cluster" in fields and not {"nodes", "gpus"} & fields.keys():
        own["nodes"] = run.nodes
    for name, value in fields.items():
        part = own if name in _OF_RUN else layout if name in layout else stated
        part[name] = value
    return Run(**own, layout=Layout.model_validate(layout), software=Software.model_validate(stated))


def _values(given: Any) -> list[Any]:
    """Several values, or the only one."""
    one = isinstance(given, str | tuple | BaseModel) or not isinstance(given, Iterable)
    return [given] if one else [getattr(value, "item", lambda v=value: v)() for value in given]


def _record(found: Prediction) -> Iterator[tuple[str, Any]]:
    run, (low_s, high_s) = found.run, found.step_interval_s
    yield from _plain({name: getattr(run, name) for name in _OF_RUN}).items()
    yield from _plain({name: getattr(run.layout, name) for name in _OF_LAYOUT}).items()
    yield "verdict", found.verdict.kind.value
    yield "step_s", found.step_s
    yield "step_p10_s", low_s
    yield "step_p90_s", high_s
    for name in ("tokens_per_s_per_gpu", "mfu", "hfu", "fits", "memory_bytes", "exposed_s"):
        yield name, getattr(found, name)
    yield "fits_probability", found.room.probability
    for cause, seconds in found.ledger.items():
        yield f"ledger_s.{cause}", seconds
    for part, size in found.memory.by_cause().items():
        yield f"memory_by_cause_bytes.{part}", size


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as names, words and plain numbers."""
    return {name: _word(value) for name, value in values.items()}


def _word(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return getattr(value, "name", str(value))
    if hasattr(value, "text"):
        return value.text
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _of_one_shape(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`rows` with the same keys: a cause that a ledger does not have took no time."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return [
        {key: row.get(key, 0.0 if key.startswith("ledger_s.") and "step_s" in row else None) for key in keys}
        for row in rows
    ]
