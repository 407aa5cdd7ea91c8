"""Results as JSON: what is written follows the published schema, and is read again."""

import json
from pathlib import Path

import pytest

from syncwall.cost.measured import MachineMeasurements
from syncwall.lab.experiment import read_experiment
from syncwall.lab.experiment_run import result_of
from syncwall.lab.host_machine import Lab
from syncwall.measure.calibrate import measured_of, read_measured
from syncwall.measure.result import Load, MachineLoad, Result
from syncwall.records import json_data, json_text
from syncwall.report import data_of, read_source
from syncwall.show.schema import schema
from tests.show.report_samples import (
    collectives_data,
    lab_records,
    links_data,
    matmul_data,
    result,
    step_data,
)

SAMPLE = Load(average=0.3, others=0.01, steal=0.0)
LOAD = MachineLoad(before=SAMPLE, during=SAMPLE)
RESULTS = {
    "measure collectives": result("collectives", collectives_data(2, 1e9), load=LOAD),
    "measure links": result("links", links_data(), tuple("abcd")),
    "measure matmul": result("matmul", matmul_data(), load=LOAD),
    "measure step": result("step", step_data(0.2, 0.1)),
}
EXPERIMENTS = sorted((Path(__file__).parents[2] / "examples" / "lab").glob("*.yaml"))


def follows(verb: str, text: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.validate(json.loads(text), schema(verb))


@pytest.mark.parametrize("verb", RESULTS)
def test_a_result_follows_its_schema_and_is_read_again(verb, tmp_path):
    data = data_of(RESULTS[verb]).model_dump(mode="json")
    read_again(verb, RESULTS[verb].model_copy(update={"data": data}), tmp_path / "r.json")


@pytest.mark.parametrize("file", EXPERIMENTS, ids=[path.stem for path in EXPERIMENTS])
def test_a_lab_follows_its_schema_and_is_read_again(file, tmp_path):
    records = [one.model_copy(update={"load": LOAD}) for one in lab_records()[:6]]
    made = result_of(read_experiment(file), records, complete=True)
    read_again("lab run", made, tmp_path / "r.json")


def read_again(verb: str, made: Result, path: Path) -> None:
    text = json_text(json_data(verb, made))
    follows(verb, text)
    path.write_text(text, encoding="utf-8")
    assert read_source(path).result == made


def test_data_of_another_kind_does_not_follow():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    text = json_text(json_data("measure step", RESULTS["measure links"]))
    with pytest.raises(jsonschema.ValidationError):
        follows("measure step", text)


def test_a_calibration_follows_its_schema_and_is_read_again(tmp_path):
    found = measured_of(RESULTS["measure matmul"])
    assert isinstance(found, MachineMeasurements)
    text = json_text(json_data("measure calibration", found))
    follows("measure calibration", text)
    path = tmp_path / "machine.json"
    path.write_text(text, encoding="utf-8")
    assert read_measured([path]) == found


def test_labs_follow_their_schema():
    lab = Lab("a", ("syncwall-a-h0", "syncwall-a-s0"), 2)
    follows("lab list", json_text(json_data("lab list", {"labs": [lab]})))
