"""Parts of a layer: casts to narrow formats, and weights without gradients."""

import pytest

from syncwall.describe import Layout
from syncwall.work.block import Operation
from syncwall.work.layer import CAST_BYTES, Shape, attention_parts, mlp_parts, quantised
from syncwall.work.operations import Collective, Elementwise, Gemm
from syncwall.work.parts import backward_block, forward_block
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import MOE, model


def shape(**layout) -> Shape:
    return Shape(model(), Layout.model_validate(layout).resolved(8), 1024)


def multiplications(operations: tuple[Operation, ...]) -> list[Gemm]:
    return [op.what for op in operations if isinstance(op.what, Gemm)]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_sixteen_bits_and_more_need_no_cast(precision):
    assert quantised(shape(precision=precision), "MLP", 1024, 4096) == []


@pytest.mark.parametrize(("precision", "each"), [("fp8", CAST_BYTES), ("mxfp8", CAST_BYTES), ("nvfp4", 5.0)])
def test_narrow_formats_are_cast_before_a_multiplication(precision, each):
    (part,) = quantised(shape(precision=precision), "MLP", 1024, 4096)
    assert isinstance(part.forward, Elementwise)
    assert part.forward.bytes == each * 1024 * 4096
    assert part.cause == "elementwise"


def test_every_multiplication_of_a_layer_has_its_input_cast():
    """Attention, output projection, and both of the feed-forward part."""
    names = {
        part.name for part in [*attention_parts(shape(precision="fp8")), *mlp_parts(shape(precision="fp8"))]
    }
    assert {n for n in names if n.endswith("cast")} == {
        "attention cast",
        "output cast",
        "MLP cast",
        "MLP down cast",
    }


def test_sequence_parallel_ranks_cast_only_their_tokens():
    whole, split = (attention_parts(shape(precision="fp8", tp=8, sp=sp))[1].forward for sp in (False, True))
    assert isinstance(whole, Elementwise)
    assert isinstance(split, Elementwise)
    assert split.bytes == whole.bytes / 8


def test_frozen_weights_have_no_gradients_but_their_inputs_have():
    parts = mlp_parts(shape())
    plain = multiplications(backward_block("layer", parts, 1).operations)
    frozen = multiplications(backward_block("layer", parts, 1, frozen=True).operations)
    assert len(plain) == 2 * len(frozen) == 4
    assert not any(one.is_weight_gradient for one in frozen)
    assert [one for one in plain if not one.is_weight_gradient] == frozen
    forward = multiplications(forward_block("layer", parts, 1).operations)
    assert sum(one.flops for one in frozen) == sum(one.flops for one in forward)


@pytest.mark.parametrize("shard", ["ddp", "zero1", "zero2", "fsdp"])
def test_nothing_is_reduced_or_stepped_for_frozen_weights(shard):
    layout = Layout.model_validate({"shard": shard, "frozen_weights": True}).resolved(8)
    for stage in transformer_step(model(moe=MOE), layout, 1024).stages:
        assert stage.parameters == 0
        for block in (*stage.backward, *stage.last_backward, *stage.finish):
            for operation in block.operations:
                if isinstance(operation.what, Collective) and operation.name == "gradients":
                    assert operation.what.bytes == 0
                if operation.name == "optimizer":
                    assert isinstance(operation.what, Elementwise)
                    assert operation.what.bytes == 0
