"""Parameters and FLOPs of models that are not decoders, against what `transformers` builds.

Parameters are counted on the meta device from shapes written here; FLOPs of small ones by
`torch.utils.flop_counter`, forward and backward.
"""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.describe.huggingface.dense import ENCODERS, PAIRS
from syncwall.work.flops import forward_flops
from syncwall.work.transformer_step import transformer_step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Shape = dict[str, Any]
BATCH, SEQ = 2, 96


def _bert(layers: int, hidden: int, heads: int, vocab: int, **more) -> Shape:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "vocab_size": vocab,
        **more,
    }


def _vit(layers: int, hidden: int, heads: int, patch: int, labels: int, **more) -> Shape:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "patch_size": patch,
        "num_labels": labels,
        **more,
    }


def _t5(layers: int, hidden: int, heads: int, head: int, ffn: int, **more) -> Shape:
    return {
        "num_layers": layers,
        "d_model": hidden,
        "num_heads": heads,
        "d_kv": head,
        "d_ff": ffn,
        "vocab_size": 32128,
        **more,
    }


def _whisper(layers: int, hidden: int, heads: int, vocab: int, mels: int, **more) -> Shape:
    sides = ("encoder", "decoder")
    return {
        "d_model": hidden,
        "vocab_size": vocab,
        **({"num_mel_bins": mels} if mels else {}),
        **{f"{side}_layers": layers for side in sides},
        **{f"{side}_attention_heads": heads for side in sides},
        **{f"{side}_ffn_dim": 4 * hidden for side in sides},
        **more,
    }


CASES: list[tuple[str, str, str, Shape]] = [
    ("bert-base", "bert", "MaskedLM", _bert(12, 768, 12, 30522)),
    ("bert-large", "bert", "MaskedLM", _bert(24, 1024, 16, 30522)),
    (
        "roberta-large",
        "roberta",
        "MaskedLM",
        _bert(24, 1024, 16, 50265, type_vocab_size=1, max_position_embeddings=514),
    ),
    (
        "xlm-roberta-base",
        "xlm-roberta",
        "MaskedLM",
        _bert(12, 768, 12, 250002, type_vocab_size=1, max_position_embeddings=514),
    ),
    (
        "distilbert-base",
        "distilbert",
        "MaskedLM",
        {"n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3072, "vocab_size": 30522},
    ),
    ("modernbert-base", "modernbert", "MaskedLM", _bert(22, 768, 12, 50368) | {"intermediate_size": 1152}),
    ("modernbert-large", "modernbert", "MaskedLM", _bert(28, 1024, 16, 50368) | {"intermediate_size": 2624}),
    ("vit-base-16", "vit", "ImageClassification", _vit(12, 768, 12, 16, 1000)),
    ("vit-huge-14", "vit", "ImageClassification", _vit(32, 1280, 16, 14, 1000)),
    (
        "vit-large-16-384",
        "vit",
        "ImageClassification",
        _vit(24, 1024, 16, 16, 21843, image_size=384, qkv_bias=False),
    ),
    ("t5-small", "t5", "Seq2SeqLM", _t5(6, 512, 8, 64, 2048)),
    ("t5-3b", "t5", "Seq2SeqLM", _t5(24, 1024, 32, 128, 16384)),
    ("t5-11b", "t5", "Seq2SeqLM", _t5(24, 1024, 128, 128, 65536)),
    (
        "flan-t5-xl",
        "t5",
        "Seq2SeqLM",
        _t5(24, 2048, 32, 64, 5120, tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
    ),
    ("t5-uneven", "t5", "Seq2SeqLM", _t5(6, 512, 8, 64, 2048, num_decoder_layers=2)),
    ("whisper-tiny", "whisper", "SpeechSeq2Seq", _whisper(4, 384, 6, 51865, 80)),
    ("whisper-large-v3", "whisper", "SpeechSeq2Seq", _whisper(32, 1280, 20, 51866, 128)),
    ("bart-large", "bart", "Seq2SeqLM", _whisper(12, 1024, 16, 50265, 0)),
]
SMALL = {
    "bert": ("bert", "MaskedLM", _bert(3, 256, 8, 1024)),
    "modernbert": ("modernbert", "MaskedLM", _bert(4, 256, 8, 1024, local_attention=32, pad_token_id=0)),
    "vit": ("vit", "ImageClassification", _vit(3, 256, 8, 16, 10)),
    "t5": (
        "t5",
        "Seq2SeqLM",
        _t5(3, 128, 4, 64, 512, n_positions=SEQ, vocab_size=1024, decoder_start_token_id=0),
    ),
    "whisper": (
        "whisper",
        "SpeechSeq2Seq",
        _whisper(
            2, 128, 4, 1024, 80, pad_token_id=0, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2
        ),
    ),
}


def _built(model_type: str, purpose: str, shape: Shape, folder: Path, device: str) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.AutoConfig.for_model(model_type, **shape)
    config.save_pretrained(folder)
    with torch.device(device):
        build = getattr(transformers, f"AutoModelFor{purpose}").from_config
        return build(config, attn_implementation="eager")


@pytest.mark.parametrize(
    ("model_type", "purpose", "shape"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_count_equals_what_transformers_builds(model_type, purpose, shape, tmp_path: Path):
    reference = _built(model_type, purpose, shape, tmp_path, "meta")
    expected = sum(parameter.numel() for parameter in reference.parameters())
    assert lookup.model(str(tmp_path / "config.json")).parameters == expected


def test_every_architecture_is_compared_or_shares_a_compared_reader():
    known = ENCODERS | PAIRS
    assert set(known.values()) == {known[model_type] for _, model_type, _, _ in CASES}


@pytest.mark.parametrize("name", SMALL)
def test_flops_equal_what_torch_counts(name, tmp_path: Path):
    model_type, purpose, shape = SMALL[name]
    real = _built(model_type, purpose, shape, tmp_path, "cpu")
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model = lookup.model(str(tmp_path))
    tokens = torch.randint(0, 1000, (BATCH, SEQ))
    given: dict[str, Any] = {"input_ids": tokens, "labels": tokens}
    if model.patches is not None:
        given = {
            "pixel_values": torch.rand(BATCH, 3, 224, 224),
            "labels": torch.zeros(BATCH).long(),
        }
    if model.encoder is not None and model.encoder.frames is not None:
        given = {"input_features": torch.rand(BATCH, 80, 3000), "labels": tokens}
    with FlopCounterMode(display=False) as counter:
        real(**given).loss.backward()
    assert _step_flops(model) == pytest.approx(counter.get_total_flops(), rel=0.005)


def _step_flops(model: Model) -> float:
    """Of a step, with all pairs where a window leaves some."""
    seq = model.patches.tokens if model.patches else SEQ
    (whole, _), (masked, _) = (forward_flops(model, seq, square=square) for square in (True, False))
    step = transformer_step(model, Layout(global_batch=BATCH).resolved(1), seq)
    return float(step.model_flops + 3 * BATCH * (whole - masked))
