"""Descriptions that nobody means: `python -m bench fuzz descriptions`."""

import json
import math
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from syncwall import catalogue
from syncwall.answer import predict
from syncwall.answer.islands import predict_islands
from syncwall.answer.rl_step import predict_rl
from syncwall.catalogue import CatalogueKind, catalogue_overlay
from syncwall.describe import Layout, Software, lookup
from syncwall.describe.base import MAY_BE_OPEN, Quantity, parts_of
from syncwall.describe.choice import Choice
from syncwall.describe.files import RunFile
from syncwall.describe.stated import StatedRun
from syncwall.documents import read_document
from syncwall.job.completion import finish
from syncwall.problems import InputError
from syncwall.read.machine_measured import read_machine_measured
from syncwall.records import json_text, plain

SLOW_S: Final = 10.0
JOBS, MEASURED, CALIBRATED, IMPROVED, AROUND = 0.06, 0.05, 0.03, 0.02, 0.1
"""Shares of the descriptions that are jobs, that come with measurements of the machine, with a
calibration or framework of their own, for which changes are proposed too, and whose run file has a
section: reinforcement learning or islands."""
EXTREMES: Final = (
    0,
    0,
    1,
    2,
    3,
    -1,
    7,
    64,
    1023,
    4096,
    10**5,
    10**7,
    10**8,
    10**9,
    2**31,
    2**63,
    10**30,
    0.0,
    1e-300,
    1e-12,
    1e-6,
    0.5,
    1.0,
    1e6,
    1e18,
    1e30,
    1e308,
    float("inf"),
    float("nan"),
)
FIELDS: Final = sorted(set(Layout.model_fields) - {"order", "recompute_modules", "dp", "shard_degree"})
TEXTS: Final = ("name", "title", "note", "source", "released", "date", "per", "aliases")
"""Keys whose values are words, even if they begin with a number."""
NONSENSE: Final[tuple[Any, ...]] = (
    "",
    "inf",
    "0",
    "-1 s",
    "1e400 GB",
    None,
    True,
    [],
    {},
    "none",
    "llama-3.1-8b",
)
JOB: Final[dict[str, Any]] = {
    "steps": 100_000,
    "spares": 2,
    "price": "$2/GPU-hour",
    "data_stall": 0.01,
    "startup": "10 min",
    "checkpoints": {"interval": "1 h", "storage": "10 GB/s", "size": "1 TB", "blocking": False},
    "failures": {
        "per_1000_node_days": 5,
        "detection": "10 min",
        "restart": "5 min",
        "repair": "1 days",
        "domain_gpus": 8,
        "early_factor": 2.0,
        "deviation": 0.5,
    },
    "evaluation": {"every": 1000, "time": "5 min"},
    "stragglers": {"per_1000_node_days": 1.0, "slowdown": 1.5, "time": "1 h"},
    "spikes": {"per_1000_steps": 0.01, "rollback": 100},
    "maintenance": {"every": "30 days", "time": "1 h"},
    "power": {"load": 0.8, "pue": 1.2},
}
AROUNDS: Final[tuple[dict[str, Any], ...]] = (
    {
        "rl": {
            "prompts": 64,
            "generations": 32,
            "prompt_tokens": 15,
            "response_tokens": 80,
            "tokens_per_s_per_gpu": 3000.0,
            "mini_batches": 4,
            "logprob_passes": 2,
            "logprob_micro_batch": 2,
            "generator_gpus": 8,
        }
    },
    {"islands": {"count": 8, "every": 100, "link": "1 Gb/s", "latency": "50 ms", "overlap": 0.5, "parts": 4}},
)
MEASUREMENTS: Final[dict[str, Any]] = {
    "gemm": [{"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "seconds": 2e-4}],
    "elementwise": [{"kind": "norm", "bytes": 1e9, "seconds": 1e-3}],
    "collectives": [{"kind": "all-reduce", "ranks": 8, "nodes": 1, "points": [[1e3, 1e-5], [1e9, 1e-2]]}],
}


def described(dice: random.Random) -> dict[str, Any]:
    """A run as a file may state it, before anything is wrong with it."""
    models, clusters = (catalogue.names(k) for k in (CatalogueKind.MODEL, CatalogueKind.CLUSTER))
    model, cluster = dice.choice(models), dice.choice(clusters)
    run: dict[str, Any] = {"model": model, "cluster": cluster, "seq": 2 ** dice.randint(7, 15)}
    if dice.random() < 0.7:
        run["model"] = _stated(CatalogueKind.MODEL, model)
    if dice.random() < 0.7:
        run["cluster"] = _stated(CatalogueKind.CLUSTER, cluster)
    run["gpus"] = 2 ** dice.randint(0, 13)
    run["layout"] = {
        name: _value(Layout.model_fields[name].annotation, dice)
        for name in dice.sample(FIELDS, dice.choice((0, 1, 2, 4, 8)))
    }
    run["software"] = {"framework": dice.choice(catalogue.names(CatalogueKind.FRAMEWORK))}
    if dice.random() < 0.3:
        name = dice.choice(sorted(set(Software.model_fields) - {"framework", "date"}))
        run["software"][name] = _value(Software.model_fields[name].annotation, dice)
    return run


def _stated(kind: CatalogueKind, name: str) -> Any:
    """An entry of the catalogue with everything in it written out."""
    return json.loads(_dumped(kind, name))


@cache
def _dumped(kind: CatalogueKind, name: str) -> str:
    return lookup.READERS[kind](name).model_dump_json(exclude_none=True)


def _value(annotation: Any, dice: random.Random) -> Any:
    """A value that a field of this type may take: a word, a truth, a small number."""
    parts = list(parts_of(annotation))
    for part in parts:
        if isinstance(part, type) and issubclass(part, Choice):
            return dice.choice(part.words())
        if isinstance(part, type) and issubclass(part, StrEnum):
            return dice.choice([*part]).value
    if bool in parts:
        return dice.random() < 0.5
    if any(isinstance(part, Quantity) for part in parts):
        return "25 MB"
    if float in parts:
        return dice.choice((0.1, 0.5, 1.0, 1.5))
    words = [part for part in parts if isinstance(part, str) and part != MAY_BE_OPEN]
    return dice.choice(words) if words else 2 ** dice.randint(0, 4)


def spoiled(value: Any, dice: random.Random, faults: int) -> None:
    """Put something else in the place of so many numbers of `value`."""
    places = list(_places(value))
    for inside, key in dice.sample(places, min(faults, len(places))):
        before = inside[key]
        if dice.random() < 0.05:
            inside[key] = dice.choice(NONSENSE)
        elif isinstance(before, str):  # such as 10 GB/s: another number, the same unit
            number = re.match(r"[$]?([0-9.]+)", before)
            assert number is not None
            inside[key] = before.replace(number[1], f"{_other(float(number[1]), dice):g}")
        else:
            inside[key] = _other(before, dice)


def _other(before: float, dice: random.Random) -> float:
    """Another number in the place of this one."""
    if dice.random() < 0.3:
        alike = [one for one in EXTREMES if isinstance(one, type(before))]
        return dice.choice(alike if dice.random() < 0.8 else EXTREMES)
    far = dice.random() < 0.4
    after = before * (10 ** dice.uniform(-9, 9) if far else dice.choice((0.5, 2, 10)))
    return max(round(after), 1) if isinstance(before, int) else after


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where numbers stand, plain or with a unit, as the container and the key."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            yield from _places(inner)
        elif isinstance(inner, str):
            if re.match(r"[$]?[0-9.]+ ?[a-zA-Z/]", inner) and key not in TEXTS:
                yield value, key
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            yield value, key


def ended(dice: random.Random, folder: Path) -> str:
    """How one description ended; what must never be starts with "!"."""
    run, faults = described(dice), dice.choice((0, 1, 1, 2, 3, 6))
    spoiled(run, dice, faults)
    job = json.loads(json.dumps(JOB)) if dice.random() < JOBS else None
    if job is not None:
        spoiled(job, dice, dice.choice((1, 2, 4)))
        job["simulations"] = 100  # more only take longer
    path = _written(folder / "run.json", {**job, "run": run} if job else run)
    measured = _measured(dice, folder) if dice.random() < MEASURED else None
    own = _catalogue(dice, folder) if dice.random() < CALIBRATED else None
    improved = dice.random() < IMPROVED
    if job is None and dice.random() < AROUND:
        around = json.loads(json.dumps(dice.choice(AROUNDS)))
        spoiled(around, dice, dice.choice((0, 1, 2)))
        _written(path, run | around)
    began = time.process_time()
    try:
        with catalogue_overlay(own):
            found = _predicted(path, measured, improved=improved)
    except InputError as error:
        found = "refused" if all(one.line or not one.file for one in error.problems) else "!no line"
    except Exception as error:  # noqa: BLE001 - what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        name = f"{Path(place.filename).name}:{place.lineno}"
        found = f"!traceback {type(error).__name__} {name} {str(error)[:80]}"
    if own is not None:
        shutil.rmtree(own)
    return "!slow" if time.process_time() - began > SLOW_S else found


def _predicted(path: Path, measured: Path | None, *, improved: bool) -> str:
    """What is wrong with the answer for the run or job in `path`."""
    file = RunFile(path)
    if sections := file.sections:
        return _around(path, sections[0], measured)
    run = StatedRun.of_file(file).run()
    job = file.job(run)
    prediction = predict(run, measured=read_machine_measured([measured]) if measured else None)
    completion = finish(job, prediction) if job is not None else None
    if improved:
        data = (completion or prediction).to_dict()
    else:
        data = plain(prediction.step) | {"job": plain(completion and completion.without_changes)}
    text = json_text(data)
    record = json.loads(text, parse_constant=_refuse)
    step_s, ledger = record["step_s"], record["ledger_s"]
    if step_s is None or not math.isfinite(step_s) or step_s <= 0:
        return "!step"
    if any(record[key] is None for key in ("mfu", "tokens_per_s_per_gpu", "memory_bytes")):
        return "!null"
    if any(seconds is None or seconds < 0 for seconds in ledger.values()):
        return "!line"
    if not math.isclose(sum(ledger.values()), step_s, rel_tol=1e-6):
        return "!sum"
    return "answered"


def _around(path: Path, key: str, measured: Path | None) -> str:
    """What is wrong with the answer for the section `key` of the run file in `path`."""
    known = read_machine_measured([measured]) if measured else None
    answer = (predict_rl if key == "rl" else predict_islands)(path, measured=known)
    text = json_text(answer.to_dict())
    record = json.loads(text, parse_constant=_refuse)
    numbers = {name: one for name, one in record.items() if isinstance(one, float)}
    if record["step_s"] is None or record["step_s"] <= 0:
        return "!step"
    negative = {name for name, one in numbers.items() if one < -1e-9}
    if negative or any(one["seconds"] < 0 for one in record.get("phases", ())):
        return "!line"
    return "answered"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _measured(dice: random.Random, folder: Path) -> Path:
    """Measurements of a machine, some of them spoiled."""
    stated = json.loads(json.dumps(MEASUREMENTS))
    spoiled(stated, dice, dice.choice((0, 1, 2)))
    return _written(folder / "measured.json", stated)


def _catalogue(dice: random.Random, folder: Path) -> Path:
    """A catalogue whose calibrations, or whose frameworks, are spoiled."""
    kind = dice.choice((CatalogueKind.CALIBRATION, CatalogueKind.FRAMEWORK))
    own = Path(tempfile.mkdtemp(dir=folder)) / kind.folder
    own.mkdir()
    for name in catalogue.names(kind):
        stated = json.loads(_entry(catalogue.find(kind, name)))
        spoiled(stated, dice, dice.choice((0, 1, 2)))
        _written(own / f"{name}.yaml", stated)
    return own.parent


@cache
def _entry(path: Path) -> str:
    """A file of the catalogue as JSON, of which every caller makes a copy."""
    return json.dumps(read_document(path).value)


def _written(path: Path, stated: Any) -> Path:
    """`stated` in the file `path`: JSON, with NaN and Infinity, is YAML too, and quicker."""
    path.write_text(json.dumps(stated), encoding="utf-8")
    return path


def descriptions(count: int = 1000, seed: int = 0) -> int:
    """Predict descriptions that nobody means: none may end in a traceback or a wrong answer.

    Takes models, machines, layouts, software, jobs and calibrations of the catalogue, puts zeros,
    ones, extremes and nonsense in the place of some of their numbers, writes them to files, and
    predicts each as the command line does. Counts what happened: refused, answered, and what must
    never be (a traceback, a step that is not a positive number, a negative line, a ledger that is
    not the step, JSON that is not strict, a problem without its line, more than 10 s); the exit
    code is 1 if anything was. The same count and seed give the same descriptions; 100,000 are forty
    times 2,500 with the seeds 0 to 39.
    """
    happened = fuzzed(count, seed)
    for what, times in sorted(happened.items()):
        print(f"{times:8,}  {what}")
    return int(any(what.startswith("!") for what in happened))


def fuzzed(count: int, seed: int) -> Counter[str]:
    """How often each end was met by `count` descriptions, the first number of each bad one."""
    found = Counter[str]()
    with tempfile.TemporaryDirectory() as directory:
        for number in range(count):
            end = ended(random.Random(f"{seed}/{number}"), Path(directory))
            if end.startswith("!") and end not in found:
                print(f"{seed}/{number}: {end}", file=sys.stderr, flush=True)
            found[end] += 1
    return found
