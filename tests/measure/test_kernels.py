import json

import pytest

from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Layout, lookup
from syncwall.measure.calibrate import joined_calibrations, measured_of, read_measured
from syncwall.measure.kernel_times import Workload, kernels_of
from syncwall.measure.result import Result
from syncwall.problems import InputError
from syncwall.work.operations import Elementwise, Gemm
from tests.measure.ranks import started


def workload(name: str = "tiny-5m") -> Workload:
    layout = Layout(micro_batch=2, precision="fp32").resolved(1)
    return Workload(lookup.model(name), layout, 64)


def test_the_shapes_are_those_that_the_predictor_prices():
    found = kernels_of(workload())
    gemms = [kernel.what for kernel in found if isinstance(kernel.what, Gemm)]
    assert {str(gemm.dtype) for gemm in gemms} == {"fp32"}
    assert any((gemm.m, gemm.n, gemm.k) == (128, 4096, 256) for gemm in gemms), "the logits"
    kinds = {kernel.what.kind for kernel in found if isinstance(kernel.what, Elementwise)}
    assert kinds >= {"norm", "norm backward", "activation", "loss", "optimizer", "positions"}
    assert "" not in kinds


def test_each_shape_is_there_once():
    shapes = [str(kernel.what.dimensions) for kernel in kernels_of(workload())]
    assert len(shapes) == len(set(shapes))


@pytest.mark.slow
def test_real_kernels_calibrate_a_prediction(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    output = tmp_path / "matmul.json"
    ranks = started(
        ("a", "a"),
        "-m",
        "syncwall",
        "measure",
        "matmul",
        "--seq",
        "16",
        "--micro-batch",
        "1",
        "--seconds",
        "0.02",
        "--json",
        str(output),
    )
    assert [rank.end(240) for rank in ranks] == [0, 0], [rank.err for rank in ranks]
    result = Result.read(output)
    assert result.complete
    measured = read_measured([output])
    assert len(measured.gemm) > 10
    assert measured.attention
    assert measured.host_share is not None
    assert measured.meeting_s is not None
    assert joined_calibrations([measured, measured]).gemm == measured.gemm


def test_a_calibration_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(MachineMeasurements(device="cpu", host_share=0.5).model_dump_json())
    assert read_measured([path]).host_share == 0.5


def test_what_cannot_calibrate_is_refused():
    job = {"backend": "gloo", "device": "cpu", "hosts": ["a"]}
    with pytest.raises(InputError, match="measurements of step cannot calibrate"):
        measured_of(Result.model_validate({"kind": "step", "job": job, "hosts": [], "data": {}}))


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"gemm": 3}', '{"kind": "matmul", "job": {}, "data": {}}', "null"]
)
def test_a_file_that_is_no_result_is_refused_with_its_place(text, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"broken.json:\d+"):
        read_measured([path])


def test_a_row_that_is_wrong_is_refused(tmp_path):
    path = tmp_path / "rows.json"
    job = {"backend": "gloo", "device": "cpu", "hosts": ["a"]}
    rows = [{"kind": "all-reduce", "bytes": -1}]
    document = {"kind": "collectives", "job": job, "hosts": [], "data": {"rows": rows}}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"rows.json"):
        read_measured([path])
