"""Measurements of a machine from any hand."""

import pytest

import syncwall as sw
from syncwall.problems import InputError
from syncwall.read.machine_measured import read_machine_measured
from tests.answer.test_prediction import FSDP, run
from tests.read.nccl_samples import NCCL_TESTS

GEMM = "gemm: [{m: 8192, n: 8192, k: 8192, dtype: bf16, rate: 600 TFLOP/s}]\n"


def test_outputs_of_nccl_tests_are_tables_of_collectives(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(NCCL_TESTS)
    found = read_machine_measured([path])
    reduce = next(one for one in found.collectives if one.kind == "all-reduce")
    assert reduce.ranks == 2
    assert reduce.points[0] == pytest.approx((1024.0, 12.5e-6))
    assert found.knobs == ("network",)


def test_several_files_are_taken_together(tmp_path):
    nccl, gemm = tmp_path / "out.txt", tmp_path / "gemm.yaml"
    nccl.write_text(NCCL_TESTS)
    gemm.write_text(GEMM)
    found = read_machine_measured([nccl, gemm])
    assert found.knobs == ("gemm", "network")
    assert found.gemm[0].seconds == pytest.approx(2 * 8192**3 / 600e12)


def test_one_gemm_rate_moves_every_multiplication(tmp_path):
    path = tmp_path / "gemm.yaml"
    path.write_text(GEMM)
    plain = sw.predict(run(**FSDP))
    found = sw.predict(run(**FSDP), measured=read_machine_measured([path]))
    assert found.ledger["GEMM"] > 1.1 * plain.ledger["GEMM"]
    assert found.ledger["attention"] == pytest.approx(plain.ledger["attention"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "1048576 262144 float sum 101.9 10.29 18.00 4e-07 101.4 10.34 18.10 4e-07\n# busbw",
            "does not name the ranks",
        ),
        ("gemm: [{m: 1, n: 1, k: 1, dtype: bf16}]", "write one of `seconds` and `rate`"),
        ("gemm: [{m: 1, n: 1, k: 1, dtype: bf16, rate: 1 TFLOP/s, seconds: 2}]", "write one of"),
        ("nothing", "nothing"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_file(tmp_path, text, said):
    path = tmp_path / "given.txt"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_machine_measured([path])
    assert "given.txt" in str(refused.value)
    assert said in str(refused.value) or said == "nothing"
