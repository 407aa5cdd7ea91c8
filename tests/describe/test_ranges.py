"""Zero, infinite and absurd numbers are refused wherever one enters, with what to write instead."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from syncwall.cli import main
from syncwall.cost.calibration import Calibration
from syncwall.describe import Cluster, Device, Layout, Model, Run
from syncwall.describe.base import MOST, RANGES, Quantity, Whole, parts_of
from syncwall.describe.job import Failures, Job
from syncwall.describe.software import Framework
from syncwall.units import Dimension, parse
from tests.describe.samples import DEVICE, MODEL, cluster, model
from tests.fuzz.descriptions import fuzzed

RUN = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--layout.bucket", "0MB"],
        ["--layout.bucket", "1e300 GB"],
        ["--tokens", "1e30"],
        ["--layout.expert-imbalance", "1e308"],
        ["--layout.capacity-factor", "1e999"],
        ["--tokens", "1T", "--job.failures.per-1000-node-days", "1e12"],
        ["--tokens", "1T", "--job.checkpoints.storage", "0 GB/s"],
        ["--seq", "1000000000000"],
        ["--layout.global-batch", "99999999999"],
        ["--steps", "10000000000000000"],
    ],
)
def test_flags_are_named(flags, capsys):
    assert main([*RUN, *flags]) == 2
    assert capsys.readouterr().err.replace("_", "-").startswith(f"{flags[-2]}: ")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rate", "0GB/s", '0GB/s is not a data rate: write for example "50 GB/s"'),
        ("rate", "1e30 GB/s", "1e30 GB/s is not a data rate that can be: write 1 B/s to 1 EB/s"),
        ("count", 10**9, "1000000000 is out of range: write 1 to 4,096"),
        ("count", 0, "0 is out of range"),
    ],
)
def test_files_are_named_with_line_and_column(key, value, said, tmp_path: Path, capsys):
    nics = json.dumps({"count": 8, "rate": "50 GB/s"} | {key: value})
    machine = tmp_path / "c.yaml"
    machine.write_text(f"node:\n  device: h100-sxm\n  gpus: 8\n  nics: {nics}\n")
    assert main(["predict", "--model", "llama-3.1-8b", "--cluster", str(machine)]) == 2
    err = capsys.readouterr().err
    assert f"c.yaml:4:{10 if key == 'count' else 22}  " in err
    assert said in err


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        (Device, {"memory": {"size": "0 GB", "rate": "3 TB/s"}}),
        (Device, {"memory": {"size": "80 GB", "rate": "0 TB/s"}}),
        (Device, {"peak": {"bf16": "0 TFLOP/s"}}),
        (Model, {"layers": 10**7}),
        (Model, {"hidden": 10**12}),
        (Model, {"vocab": 0}),
    ],
)
def test_devices_and_models(part, changes):
    stated = (DEVICE if part is Device else MODEL) | changes
    with pytest.raises(ValidationError):
        part.model_validate(stated, context={"in_file": True})


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan"), 1e308])
def test_python_is_told_too(bad):
    for fields in ({"bucket_bytes": bad}, {"expert_imbalance": bad}, {"capacity_factor": bad}):
        with pytest.raises(ValidationError):
            Layout(**fields)
        (name,) = fields
        with pytest.raises(ValidationError):
            Layout.arrays(**{name: np.array([1.0, bad])})


def test_numbers_of_thousands_of_digits_are_refused_not_written():
    with pytest.raises(ValidationError, match="a number of many digits is out of range"):
        Layout(tp=10**5000)


def test_zero_is_taken_where_nothing_is_meant():
    assert Failures(detection_s=0, restart_s="0 s", per_1000_node_days=0).detection_s == 0
    run = Run(model=model(), cluster=cluster())
    assert Job(run=run, steps=5, price_usd_per_gpu_hour=0).price_usd_per_gpu_hour == 0


@pytest.mark.parametrize("described", [Run, Job, Framework, Calibration, Cluster])
def test_every_number_of_a_description_has_a_bound(described):
    """Of all fields within: a plain float without a bound, or an int, would let anything in."""
    open_ended = [
        f"{one.__name__}.{name}"
        for one in {part for part in _within(described) if isinstance(part, type)}
        if hasattr(one, "model_fields")
        for name, field in one.model_fields.items()
        if {int, float} & set(parts_of(field.annotation)) and not _refuses(field.rebuild_annotation(), 10**40)
    ]
    assert not open_ended


def _within(annotation, seen=None):
    seen = set() if seen is None else seen
    for part in parts_of(annotation):
        yield part
        if hasattr(part, "model_fields") and part not in seen:
            seen.add(part)
            for field in part.model_fields.values():
                yield from _within(field.annotation, seen)


def _refuses(annotation, number):
    """True if neither the number nor a table or list of it is taken."""
    reader = TypeAdapter(annotation)
    for value in (number, float(number), {"bf16": number}, {"2024-01": number}, [number] * 2):
        try:
            reader.validate_python(value)
        except ValidationError:
            continue
        return False
    return True


def test_every_dimension_has_a_range_that_holds_its_example():
    for dimension in Dimension:
        least, most = RANGES[dimension]
        assert 0 < least <= parse(dimension.value, dimension) <= most < float("inf")
    assert Whole(1).most == MOST
    assert not Quantity(Dimension.BYTES).zero


def test_random_descriptions_are_answered_or_refused():
    """A sample of `python -m bench fuzz descriptions`."""
    assert set(fuzzed(60, 1000)) <= {"answered", "refused"}
