"""The worked example of the network chapter of ml-engineering, in both readings of a datasheet."""

import pytest

from syncwall.cost.nccl import bus_factor
from syncwall.describe import Layout, Model
from syncwall.units import Dimension, parse
from syncwall.work.memory import step_memory

COMPUTE_S = 0.42


def rate(text: str) -> float:
    return parse(text, Dimension.BYTES_PER_S)


@pytest.mark.parametrize(("wire", "seconds"), [("200 Gb/s", 12.8), ("1600 Gb/s", 1.6)])
def test_eighty_billion_fp32_parameters_over_a_wire(wire, seconds):
    assert 80e9 * 4 / rate(wire) == pytest.approx(seconds)


def test_flop_of_a_step_with_recomputation():
    """2 B parameters, 2048 tokens, batch 16, 8 GPUs: forward, again, and twice that backward."""
    flop = 2e9 * 2 * (3 + 1) * 2048 * 16 / 8
    assert flop == pytest.approx(65.536e12)
    assert flop / parse("156 TFLOP/s", Dimension.FLOP_PER_S) == pytest.approx(COMPUTE_S, abs=0.001)


@pytest.mark.parametrize(
    ("wire", "seconds", "bottleneck"),
    [
        ("600 GB/s duplex", 0.053, False),  # one node of A100: 300 GB/s one way
        ("600 GB/s", 0.027, False),  # the same number misread as one way
        ("900 GB/s duplex", 0.035, False),  # H100
        ("200 Gb/s", 0.64, True),  # four nodes
        ("400 Gb/s", 0.32, False),
    ],
)
def test_sixteen_gigabytes_of_gradients(wire, seconds, bottleneck):
    found = 16e9 / rate(wire)
    assert found == pytest.approx(seconds, abs=0.001)
    assert (found > COMPUTE_S) == bottleneck


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (8, 1.75), (64, 1.96875)])
def test_all_reduce_moves_nearly_twice_the_data(ranks, factor):
    assert bus_factor("all-reduce", ranks) == factor
    assert bus_factor("all-gather", ranks) == factor / 2


def test_eighteen_bytes_a_parameter():
    """Weights, gradients and AdamW in mixed precision; 36 GB for 2 B parameters."""
    model = Model.model_validate(
        {
            "layers": 24,
            "hidden": 2560,
            "vocab": 50304,
            "attention": {"heads": 20},
            "mlp": {"hidden": 10240, "gated": False},
            "tied_embeddings": True,
        }
    )
    memory = step_memory(model, Layout().resolved(1), 2048)
    states = memory.weights + memory.gradients + memory.optimizer
    assert states / model.parameters == pytest.approx(18, rel=1e-3)
    assert 2e9 * 18 == 36e9
