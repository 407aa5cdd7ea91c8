"""The table of nvidia-smi: what it shows of each GPU, and what of it is a fault."""

import pytest

from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState
from syncwall.read.node_checks import read_node_check


def table(*rows: str) -> str:
    """A table of H100s; a row is "ecc temperature power cap used busy"."""
    lines = ["|=====|=====|=====|"]
    for number, row in enumerate(rows):
        ecc, temperature, power, cap, used, busy = row.split()
        sensors = f"| N/A   {temperature}    P0            {power:>4} / {cap:>5} |"
        lines += [
            f"|   {number}  NVIDIA H100 80GB HBM3   On  |   00000000:{number:02X}:00.0 Off |{ecc:>21} |",
            f"{sensors}   {used}MiB /  81559MiB |{busy:>8}      Default |",
            "+-----------------------------------------+------------------------+----------------------+",
        ]
    process = "|    0   N/A  N/A     10734      C   /usr/bin/python3.11         70160MiB |"
    return "\n".join([*lines, "| Processes: |", process])


BUSY = "0 61C 650W 700W 70000 100%"


@pytest.mark.parametrize(
    ("row", "cause", "state"),
    [
        ("2 61C 650W 700W 70000 100%", "GPU memory error", VerdictState.WRONG),
        ("0 93C 650W 700W 70000 100%", "GPU hot", VerdictState.SUSPECT),
        ("0 61C 350W 400W 70000 100%", "power cap differs", VerdictState.SUSPECT),
        ("0 35C 110W 700W 70000 0%", "GPU idle among busy ones", VerdictState.SUSPECT),
        ("ERR! ERR! ERR! ERR! 70000 ERR!", "GPU not readable", VerdictState.SUSPECT),
    ],
)
def test_a_gpu_that_is_not_like_the_others_is_named(row, cause, state, tmp_path):
    path = tmp_path / "smi"
    path.write_text(table(BUSY, row, BUSY))
    found = explain([path])
    assert (found.state, found.conclusion.cause) == (state, cause)
    assert "GPU 1 (NVIDIA H100 80GB HBM3)" in found.verdict
    (fault,) = read_node_check(path).faults
    assert fault.line == 5


@pytest.mark.parametrize("row", [BUSY, "0 30C 70W 700W 00004 0%", "N/A 85C 690W 700W 81000 91%"])
def test_what_is_usual_is_not_judged(row, tmp_path):
    path = tmp_path / "smi"
    path.write_text(table(BUSY, row, BUSY))
    found = explain([path])
    assert found.state is VerdictState.NOT_JUDGED
    assert "; 1 processes" in found.facts[0].says


def test_what_ended_the_job_is_read_beside_the_table(tmp_path):
    path = tmp_path / "both"
    path.write_text(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n{table(BUSY)}")
    found = explain([path])
    assert found.conclusion.cause == "GPU out of memory"
    assert any("nvidia-smi: 1 x NVIDIA H100" in fact.says for fact in found.facts)


def test_a_log_of_nvidia_smi_q_without_clocks_says_that_nothing_was_tested(tmp_path):
    path = tmp_path / "q"
    path.write_text("==============NVSMI LOG==============\n\nDriver Version : 535.1\nGPU 00000000:0A:00.0\n")
    assert explain([path]).state is VerdictState.NOT_JUDGED
