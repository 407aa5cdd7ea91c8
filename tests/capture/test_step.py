"""Recording from Python."""
# ruff: noqa: E402 - what follows needs torch

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import syncwall as sw
from tests.work.recorded import plain


def training():
    made: dict[str, Any] = {}

    def step():
        if not made:
            made["model"] = torch.nn.Linear(16, 16, bias=False)
            made["optimizer"] = torch.optim.SGD(made["model"].parameters(), lr=0.1)
        made["model"](torch.randn(32, 16)).sum().backward()
        made["optimizer"].step()
        made["optimizer"].zero_grad()

    return step


def test_a_function_is_called_until_two_steps_are_recorded(tmp_path):
    program = sw.capture(training(), world_size=1024)
    assert program.world_size == 1024
    assert program.ranks[0].model_flops == 2 * 2 * 32 * 16 * 16
    assert repr(program).startswith("Program('', world_size=1024, calls=")
    assert "One optimizer step on 1,024 ranks" in str(program)
    assert program.to_dict()["verb"] == "capture"
    sw.write_program(program, tmp_path / "run.work.json.gz")
    assert plain(sw.read_program(tmp_path / "run.work.json.gz")) == plain(program)


def test_the_lines_of_a_with_are_the_same():
    with sw.capturing(world_size=1024) as recording:
        step = training()
        step()
        step()
    assert plain(recording.program()) == plain(sw.capture(training(), world_size=1024))


def test_a_function_without_an_optimizer_is_refused():
    with pytest.raises(sw.InputError, match="optimizer"):
        sw.capture(lambda: torch.ones(2), world_size=8)
