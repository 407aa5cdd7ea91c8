"""FLOPs for the MFU are those of `work`."""

import pytest

from syncwall.describe import lookup
from syncwall.watch.expected import expectation
from syncwall.watch.model_flops import FLOPS, counted_flops, stated_flops, tell_flops
from syncwall.work.flops import forward_flops


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated:FutureWarning")
@pytest.mark.parametrize("again", [False, True])
def test_counted_flops_equal_those_of_the_description(again, tmp_path):
    """Within 1 %, and the same where activations are computed again."""
    pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    import torch

    config = transformers.LlamaConfig(
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=4096,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
    )
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    if again:
        model.gradient_checkpointing_enable()
        model.train()
    tokens = torch.zeros(2, 1024, dtype=torch.long)
    (tmp_path / "config.json").write_text(config.to_json_string())
    described = lookup.model(str(tmp_path / "config.json"))
    whole = 3 * 2 * forward_flops(described, 1024)[0]
    assert counted_flops(model, tokens, use_cache=False) == pytest.approx(whole, rel=0.01)


def test_frozen_weights_have_no_gradients():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False))
    one = 2 * 10 * 64 * 64
    assert counted_flops(model, torch.zeros(10, 64)) == 3 * 2 * one
    model[0].weight.requires_grad_(False)
    assert counted_flops(model, torch.zeros(10, 64)) == 5 * one
    assert model[1].weight.device.type == "cpu"


def test_what_a_loop_tells_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCWALL_WATCH_FOLDER", str(tmp_path))
    assert stated_flops(tmp_path) == (None, None)
    tell_flops(6e9, 989e12)
    assert stated_flops(tmp_path) == (6e9, 989e12)
    (tmp_path / FLOPS).write_text("{")
    assert stated_flops(tmp_path) == (None, None)


def test_a_run_file_says_it_too(tmp_path):
    run = tmp_path / "run.yaml"
    run.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 1\nlayout: {shard: fsdp}\n")
    expected = expectation(str(run))
    per_token, peak_flops = stated_flops(tmp_path, expected)
    assert per_token == pytest.approx(6 * 8.03e9, rel=0.2)
    assert peak_flops == pytest.approx(989.4e12)
