import pytest

from syncwall.describe import Layout
from syncwall.work.memory_parts import (
    kept_gradient_bytes,
    optimizer_bytes,
    stored_bytes,
    update_bytes,
)

PURE = {"master_weights": "none", "moment_dtype": "bf16", "kept_gradient_dtype": "bf16"}


def layout(**fields) -> Layout:
    return Layout.model_validate(fields).plain()


@pytest.mark.parametrize(
    ("fields", "stored", "gradient", "states"),
    [
        ({}, 2, 4, 12),  # Megatron: 18 bytes
        ({"kept_gradient_dtype": "bf16"}, 2, 2, 12),  # NVIDIA's recipes: 16
        ({"master_weights": "stored"}, 4, 4, 8),  # PyTorch's FSDP: 16
        (
            {"master_weights": "none", "moment_dtype": "bf16", "kept_gradient_dtype": "bf16"},
            2,
            2,
            4,
        ),
        ({"master_weights": "remainder"}, 2, 4, 10),
        ({"moment_dtype": "bf16"}, 2, 4, 8),
        ({"optimizer": "muon"}, 2, 4, 8),
        ({"optimizer": "sgd", "master_weights": "none"}, 2, 4, 4),
        ({"optimizer": "adafactor"}, 2, 4, 4),
        ({"precision": "fp32"}, 4, 4, 8),
        ({"separate_gradients": True, "pp": 2}, 2, 6, 12),
        ({"separate_gradients": True}, 2, 4, 12),
        ({"precision": "fp8", "narrow_weights": True}, 1, 4, 12),
        ({"frozen_weights": True}, 2, 0, 0),
    ],
)
def test_bytes_of_a_parameter(fields, stored, gradient, states):
    one = layout(**fields)
    found = (stored_bytes(one), kept_gradient_bytes(one), optimizer_bytes(one))
    assert found == (stored, gradient, states)


def test_eight_bit_moments_have_scales():
    assert optimizer_bytes(layout(optimizer="adam-8bit")) == pytest.approx(4 + 2 + 2 * 4 / 256)


def test_an_update_reads_and_writes_states():
    assert update_bytes(layout()) == 34
    assert update_bytes(layout(master_weights="stored")) == 34
    assert update_bytes(layout(precision="fp32")) == 32
