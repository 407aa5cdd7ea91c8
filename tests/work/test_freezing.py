"""Parts and layers that are not trained: how far the step goes backward, and what it keeps."""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.rules import broken_rules
from syncwall.work.block import Work
from syncwall.work.flops import forward_flops
from syncwall.work.layer import Shape
from syncwall.work.layout_switches import PASSED, STILL, TRAINED, Frozen
from syncwall.work.memory import step_memory
from syncwall.work.operations import Collective, Gemm
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import MOE, model
from tests.describe.test_encoder import seeing

SEQ = 2048
LORA = {"rank": 16}


def _layout(gpus: int = 8, **fields: Any) -> Layout:
    return Layout.model_validate({"shard": "fsdp", **fields}).resolved(gpus)


def _step(of: Model, **fields: Any) -> Work:
    return transformer_step(of, _layout(**fields), SEQ)


def _backward(work: Work) -> dict[str, tuple[float, bool]]:
    """Rounds of each block that goes backward, and whether a weight of it has gradients."""
    return {
        f"{block.name} {number}": (
            float(block.rounds),
            any(isinstance(op.what, Gemm) and op.what.is_weight_gradient for op in block.operations),
        )
        for number, block in enumerate(work.stages[1].last_backward)
    }


@pytest.mark.parametrize(
    ("frozen", "expected"),
    [
        ((), (TRAINED, TRAINED, TRAINED, TRAINED)),
        (("encoder",), (STILL, TRAINED, TRAINED, TRAINED)),
        (("encoder", "decoder"), (STILL, TRAINED, STILL, PASSED)),
        (("encoder", "projector"), (STILL, STILL, TRAINED, TRAINED)),
        (("projector", "decoder"), (TRAINED, PASSED, STILL, PASSED)),
    ],
)
def test_nothing_goes_backward_below_the_first_trained_part(frozen, expected):
    found = Frozen.of(Shape(seeing(frozen=False), _layout(frozen=frozen), SEQ))
    assert (found.encoder, found.projector, found.embedding, found.layers) == expected


def test_a_projector_alone_is_trained_through_the_whole_decoder():
    found = _backward(_step(seeing(frozen=False), frozen=["encoder", "decoder"]))
    assert found == {
        "output layer 0": (1, False),
        "dense layer 1": (32, False),
        "projector 2": (1, True),
    }


def test_one_part_needs_no_brackets():
    assert _layout(frozen="encoder") == _layout(frozen=["encoder"])


def test_adapters_leave_the_tower_still():
    found = _backward(_step(seeing(frozen=False), lora=LORA))
    assert not [name for name in found if name.startswith(("encoder", "projector"))]


def test_first_layers_that_are_frozen_have_no_backward_pass():
    found = _backward(_step(model(), frozen_layers=24))
    assert found == {"output layer 0": (1, True), "dense layer 1": (8, True)}
    whole, part = (_step(model(), frozen_layers=count).model_flops for count in (0, 24))
    per_layer = (forward_flops(model(), SEQ)[0] - 2 * SEQ * 4096 * model().vocab) / 32
    assert (whole - part) / 8 == pytest.approx(2 * 24 * per_layer)


def test_first_layers_behind_a_trained_projector_are_passed_through():
    found = _backward(_step(seeing(), frozen_layers=24))
    assert found == {
        "output layer 0": (1, True),
        "dense layer 1": (8, True),
        "dense layer 2": (24, False),
        "projector 3": (1, True),
    }


def test_frozen_first_layers_are_those_of_their_kind():
    sparse = model(moe=MOE | {"dense_first": 2})
    frozen = Frozen.of(Shape(sparse, _layout(frozen_layers=5), SEQ))
    dense, experts = sparse.layer_kinds
    assert frozen.of_kind(sparse, dense) == [(2, STILL)]
    assert frozen.of_kind(sparse, experts) == [(3, STILL), (experts.count - 3, TRAINED)]
    hybrid = Model.model_validate(
        {
            "layers": 4,
            "hidden": 256,
            "vocab": 1024,
            "pattern": "* -",
            "attention": {"heads": 8},
            "mlp": {"hidden": 512},
        }
    )
    frozen = Frozen.of(Shape(hybrid, _layout(frozen_layers=3), SEQ))
    assert [frozen.leading(hybrid, kind) for kind in hybrid.layer_kinds] == [2, 1]
    assert isinstance(hybrid.layer_kinds[0], LayerKind)


def test_a_tied_output_layer_is_frozen_with_the_embedding():
    for tied, expected in ((True, PASSED), (False, TRAINED)):
        shape = Shape(model(tied_embeddings=tied), _layout(frozen_layers=1), SEQ)
        assert Frozen.of(shape).output_layer is expected


@pytest.mark.parametrize("shard", ["ddp", "fsdp"])
def test_only_trained_weights_have_states_and_gradients_to_reduce(shard):
    some, every = ({"shard": shard, "frozen_layers": n, "micro_batch": 1} for n in (24, 0))
    part, whole = (step_memory(model(), _layout(**fields), SEQ) for fields in (some, every))
    ends = model().vocab * 4096
    layer = (model().parameters - 2 * ends) / 32
    trained = (8 * layer + ends) / model().parameters
    assert part.optimizer / whole.optimizer == pytest.approx(trained, rel=1e-3)
    assert part.gradients / whole.gradients == pytest.approx(trained, rel=1e-3)
    assert part.activations / whole.activations == pytest.approx(8 / 32, rel=1e-6)
    assert part.weights == pytest.approx(whole.weights)
    sent, all_sent = (_reduced(_step(model(), **fields)) for fields in (some, every))
    assert sent / all_sent == pytest.approx(trained, rel=1e-3)


def _reduced(work: Work) -> float:
    return float(
        sum(
            op.what.bytes * block.rounds
            for block in work.stages[1].last_backward
            for op in block.operations
            if isinstance(op.what, Collective) and op.name == "gradients"
        )
    )


def test_more_images_than_the_model_says_are_asked_for_by_the_layout():
    one, stated, asked = (
        transformer_step(seeing(**more), _layout(**fields), SEQ).model_flops
        for more, fields in (({}, {}), ({"each": 3}, {}), ({}, {"images": 3}))
    )
    assert one < stated == pytest.approx(asked)


def test_layers_whose_output_nothing_takes_go_forward_only():
    idle, plain = (_step(seeing(frozen=False, idle_layers=n)) for n in (1, 0))
    assert len(idle.stages[1].forward) == len(plain.stages[1].forward) + 1
    assert idle.model_flops < plain.model_flops
    rounds = {block.name: block.rounds for block in idle.stages[1].backward}
    assert rounds["encoder dense layer"] == 23
    assert "encoder norm" not in rounds


@pytest.mark.parametrize(
    ("of", "fields", "field", "says"),
    [
        (model(), {"frozen": ["encoder"]}, "frozen", "frozen encoder: the model has none"),
        (model(), {"frozen": ["decoder"]}, "frozen", "nothing is trained"),
        (seeing(), {"frozen": ["projector", "decoder"]}, "frozen", "nothing is trained"),
        (model(), {"images": 2}, "images", "the model has no encoder"),
        (
            seeing(),
            {"images": 4},
            "images",
            "2,304 tokens of images do not fit a sequence of 2,048",
        ),
        (model(), {"frozen_layers": 33}, "frozen_layers", "33 of only 32 layers"),
        (model(), {"frozen_layers": 4, "pp": 2}, "frozen_layers", "without a pipeline"),
        (model(), {"frozen_layers": 4, "first_layers_bf16": 1}, "frozen_layers", "bf16 among"),
        (model(), {"frozen_layers": 4, "lora": LORA}, "frozen", "only adapters"),
        (seeing(), {"frozen": ["decoder"], "frozen_layers": 4}, "frozen_layers", "leave out one"),
    ],
)
def test_what_cannot_be_frozen_is_said(of, fields, field, says):
    broken = broken_rules(of, _layout(**fields), SEQ, 8)
    assert [found for found, reason in broken if says in reason] == [field]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("frozen", [(), ("encoder",)])
def test_a_frozen_side_of_whisper_in_torch_has_as_many_flops(frozen, tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.WhisperConfig(
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        vocab_size=1024,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    config.save_pretrained(tmp_path)
    real = transformers.AutoModelForSpeechSeq2Seq.from_config(config, attn_implementation="eager")
    for part in frozen:
        getattr(real.model, part).requires_grad_(False)
    labels = torch.randint(3, 1000, (2, 96))
    with FlopCounterMode(display=False) as counter:
        real(input_features=torch.rand(2, 80, 3000), labels=labels).loss.backward()
    found, layout = lookup.model(str(tmp_path)), Layout(global_batch=2, frozen=frozen).resolved(1)
    decoder = found.model_copy(
        update={"encoder": None, "attention": found.attention.model_copy(update={"cross": False})}
    )
    square, masked = (forward_flops(decoder, 96, square=square)[1] for square in (True, False))
    ours = transformer_step(found, layout, 96).model_flops + 3 * 2 * (square - masked)
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.005)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("tied", [False, True])
def test_frozen_layers_in_torch_have_as_many_flops_and_states(tied, tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.LlamaConfig(
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=688,
        vocab_size=1024,
        tie_word_embeddings=tied,
    )
    config.save_pretrained(tmp_path)
    real = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for part in (real.model.embed_tokens, *real.model.layers[:4]):
        part.requires_grad_(False)
    tokens = torch.randint(0, 1000, (2, 96))
    with FlopCounterMode(display=False) as counter:
        real(input_ids=tokens, labels=tokens).loss.backward()
    found, layout = lookup.model(str(tmp_path)), Layout(global_batch=2, frozen_layers=4).resolved(1)
    square, masked = (forward_flops(found, 96, square=square)[1] for square in (True, False))
    above = 2 * (square - masked) / 6 * (4 * 1 + 2 * 3)
    ours = transformer_step(found, layout, 96).model_flops + above
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.005)
    trained = sum(one.numel() for one in real.parameters() if one.grad is not None)
    assert step_memory(found, layout, 96).optimizer / 12 == pytest.approx(trained, rel=0.001)
