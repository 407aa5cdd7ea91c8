"""FLOP counts against `torch.utils.flop_counter` on real models, forward and backward.

What is compared is what MFU counts (`work.flops`), but for attention: the plain one of
`transformers` computes the scores above the diagonal and outside of a window too, so all of the
square counts here. A multiply-add is 2, backward twice forward, routed experts as often as tokens
visit them; norms, activations and short convolutions are no products and count on neither side.
Parameters are compared in passing.
"""

from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Model, lookup
from syncwall.work.flops import forward_flops
from tests.conftest import sampled
from tests.describe.tiny import TINY, VARIANTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch inside transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

CASES = {name: (name, shape) for name, shape in TINY.items()} | VARIANTS
BATCH, SEQ = 2, 128


@pytest.mark.parametrize("name", sampled(CASES, 3))
def test_flops_equal_what_torch_counts(name, tmp_path: Path):
    """Forward only with scans: in two chunks, the gradient of the first state and the last one are
    not needed."""
    model_type, shape = CASES[name]
    real = _built(model_type, shape, tmp_path)
    model = lookup.model(str(tmp_path))
    assert model.parameters == sum(parameter.numel() for parameter in real.parameters())
    passes = 3 if model.mixer is None else 1
    ours = forward_flops(model, SEQ, square=True)[0] + _written_otherwise(model)
    ours -= 2 / 3 * _indexer(model)  # `transformers` does not train it
    counted = _counted(real, backward=passes == 3)
    assert passes * BATCH * ours == pytest.approx(counted, rel=0.005)


def _written_otherwise(model: Model) -> float:
    """FLOP of one sequence in scans that `transformers` does other than the kernels, more or less.

    Gated DeltaNet solves two triangular systems instead of multiplying by the inverse; scores of
    Kimi Delta Attention, of keys and of queries with keys, are sums over element-wise products.
    Those of Mamba-2 are computed for each head instead of each group of heads, and states are
    passed on by a product over all chunks. That of Mamba-1 is renewed by element-wise products.
    """
    mixer = model.mixer
    if mixer is None:
        return 0.0
    heads, state, chunk = mixer.heads, mixer.state, mixer.chunk
    if mixer.kind == "mamba-2":
        passing = heads * state * mixer.head_dim * (SEQ / chunk + 1) ** 2
        each = 2 * (SEQ * chunk * (heads - mixer.groups) * state + passing)
    elif mixer.kind == "mamba-1":
        each = -2.0 * SEQ * heads * state
    else:
        widths = {"gated-delta": state + mixer.head_dim, "kimi-delta": 2 * state}
        each = -2 * SEQ * chunk * heads * widths.get(mixer.kind, 0)
    return model.mixer_layers * each


def _indexer(model: Model) -> float:
    """FLOP of one sequence in what picks the tokens to attend to: projections and all scores."""
    indexer, latent = model.attention.indexer, model.attention.latent
    if indexer is None or latent is None or latent.q_rank is None:
        return 0.0
    queries = latent.q_rank * indexer.heads * indexer.head_dim
    projections = queries + model.hidden * (indexer.head_dim + indexer.heads)
    scores = SEQ * indexer.heads * (indexer.head_dim + 1)
    return model.layers * 2 * SEQ * (projections + scores)


def _built(model_type: str, shape: dict[str, Any], folder: Path) -> Any:
    """The model as `transformers` builds it; its configuration is in `folder`."""
    pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.AutoConfig.for_model(model_type, **shape)
    config.save_pretrained(folder)
    written = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return transformers.AutoModelForCausalLM.from_config(config, **written)


def _counted(real: Any, *, backward: bool) -> int:
    """FLOP that torch counts, without convolutions (element-wise work here)."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    tokens = torch.randint(3, 1000, (BATCH, SEQ))
    with FlopCounterMode(display=False) as counter:
        loss = real(input_ids=tokens, labels=tokens).loss
        if backward:
            loss.backward()
    counts = counter.get_flop_counts()["Global"]
    return sum(n for op, n in counts.items() if "convolution" not in str(op))
