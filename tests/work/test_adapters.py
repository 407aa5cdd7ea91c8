import pytest

from syncwall.describe import Layout
from syncwall.describe.rules import broken_rules
from syncwall.describe.switches import FROZEN_BYTES, Lora
from syncwall.work.layer import Shape
from syncwall.work.layout_switches import rank_adapter_parameters as on_a_rank
from syncwall.work.memory import step_memory
from syncwall.work.operations import Collective, Elementwise, Gemm
from syncwall.work.transformer_step import transformer_step
from tests.describe.adapters import adapter_parameters
from tests.describe.samples import MOE, model

SEQ = 1024
LORA = {"rank": 16, "weights": "nf4"}


def layout(gpus: int = 1, **fields) -> Layout:
    return Layout.model_validate({"lora": LORA, **fields}).resolved(gpus)


def operations(found, phase: str):
    return [op for block in getattr(found.stages[1], phase) for op in block.operations]


def test_adapters_are_the_only_weights_with_gradients():
    found = transformer_step(model(), layout(), SEQ)
    products = [op.what for op in operations(found, "backward") if isinstance(op.what, Gemm)]
    trained = [one for one in products if one.is_weight_gradient]
    assert len(trained) == 2 * 7  # of every matrix, into its rank and out of it
    assert all(16 in (one.m, one.n, one.k) for one in trained)
    assert found.stages[1].parameters == pytest.approx(adapter_parameters(model(), Lora.model_validate(LORA)))


def test_adapters_add_their_products_forward():
    plain = transformer_step(model(), Layout(frozen_weights=True).resolved(1), SEQ)
    found = transformer_step(model(), layout(), SEQ)

    def flops(work):
        return sum(
            op.what.flops * block.rounds
            for block in work.stages[1].forward
            for op in block.operations
            if isinstance(op.what, Gemm)
        )

    more = 2 * SEQ * adapter_parameters(model(), Lora.model_validate(LORA))
    assert flops(found) - flops(plain) == pytest.approx(more)


@pytest.mark.parametrize(("weights", "times"), [("nf4", 1), ("bf16", 0)])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_quantised_weights_are_dequantised_each_time(weights, times, recompute):
    one = layout(lora=LORA | {"weights": weights}, recompute=recompute)
    found = transformer_step(model(), one, SEQ)
    count = times * (2 if recompute == "full" else 1)
    for phase, expected in (("forward", times), ("backward", count)):
        moved = [op.what for op in operations(found, phase) if op.name == "dequantised weights"]
        assert len(moved) == expected
        for what in moved:
            assert isinstance(what, Elementwise)
            assert what.bytes > (2 + FROZEN_BYTES["nf4"]) * 2e8  # a layer has 2.2e8


def test_gradients_of_adapters_are_reduced_and_weights_gathered_as_they_are_kept():
    found = transformer_step(model(), layout(8, shard="fsdp"), SEQ)
    wide = transformer_step(model(), Layout(frozen_weights=True, shard="fsdp").resolved(8), SEQ)

    def sent(work, name, phase):
        return sum(
            op.what.bytes
            for op in operations(work, phase)
            if isinstance(op.what, Collective) and op.name == name
        )

    assert sent(found, "weights", "forward") < 0.35 * sent(wide, "weights", "forward")
    assert sent(wide, "gradients", "last_backward") == 0
    assert sent(found, "gradients", "last_backward") == pytest.approx(4 * 16 * 81_920)  # a layer


def test_states_are_those_of_adapters_alone():
    count = adapter_parameters(model(), Lora.model_validate(LORA))
    found = step_memory(model(), layout(), SEQ)
    assert found.gradients == pytest.approx(4 * count)
    assert found.optimizer == pytest.approx(12 * count)  # a copy in fp32 and two moments
    ends = 2 * model().vocab * model().hidden + model().hidden
    inner = model().parameters - ends
    assert found.weights == pytest.approx(FROZEN_BYTES["nf4"] * inner + 2 * ends + 2 * count)
    assert step_memory(model(), layout(offload_optimizer=True), SEQ).optimizer == 0


def test_states_of_adapters_are_sharded():
    whole, part = (step_memory(model(), layout(8, shard=s), SEQ) for s in ("ddp", "fsdp"))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name) / 8)


def test_inputs_are_kept_where_an_adapter_needs_them():
    frozen = step_memory(model(), Layout(frozen_weights=True).resolved(1), SEQ).activations
    trained = step_memory(model(), Layout().resolved(1), SEQ).activations
    every = step_memory(model(), layout(), SEQ).activations
    between = 2 * SEQ * 32 * 7 * 16
    assert every == pytest.approx(trained + between)
    queries = layout(lora={"rank": 16, "targets": ["q_proj"]})
    normed = 2 * SEQ * 32 * (model().hidden + 16)
    assert step_memory(model(), queries, SEQ).activations == pytest.approx(frozen + normed)


def test_tensor_parallel_ranks_share_one_side_of_an_adapter():
    kind = model().layer_kinds[0]
    one = Shape(model(), layout(8, tp=8), SEQ)
    hidden, keys, ffn = 4096, 1024, 14336
    column = 5 * hidden + (hidden + 2 * keys + 2 * ffn) / 8
    row = (hidden + ffn) / 8 + 2 * hidden
    assert on_a_rank(one, kind).plain == pytest.approx(16 * (column + row))


def test_adapters_of_experts_are_refused():
    sparse = model(moe=MOE, mlp=None)
    every = layout()
    assert [field for field, _ in broken_rules(sparse, every, SEQ, 1)] == ["lora"]
    said = {"rank": 16, "targets": ["attention"]}
    attention = layout(lora=said)
    assert not broken_rules(sparse, attention, SEQ, 1)
    assert adapter_parameters(sparse, Lora.model_validate(said)) == 32 * 16 * (4 * 8192 - 2 * 3072)
