import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.describe import lookup
from syncwall.describe.huggingface import ARCHITECTURES
from syncwall.problems import InputError

LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}


def written(directory: Path, config: object) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    return str(directory / "config.json")


def test_a_file_and_its_directory_are_the_same_model(tmp_path: Path):
    path = written(tmp_path / "my-llama", LLAMA_8B)
    assert lookup.model(path) == lookup.model(str(tmp_path / "my-llama"))
    assert lookup.model(path).name == "my-llama"
    assert lookup.model(path).parameters == 8_030_261_248


def test_old_files_without_key_value_heads_have_as_many_as_heads(tmp_path: Path):
    config = {key: value for key, value in LLAMA_8B.items() if key != "num_key_value_heads"}
    assert lookup.model(written(tmp_path, config)).kv_heads == 32


def test_all_problems_are_found_at_once_with_their_lines(tmp_path: Path):
    broken = LLAMA_8B | {"vocab_size": "many", "tie_word_embeddings": 3}
    del broken["hidden_size"]
    with pytest.raises(InputError) as caught:
        lookup.model(written(tmp_path, broken))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines[:3]] == ["1", "7", "10"]
    assert '"hidden_size" is missing' in lines[0]
    assert "must be a whole number, not 'many'" in lines[1]
    assert "must be true or false, not 3" in lines[2]


def test_an_unknown_architecture_is_refused_not_guessed(tmp_path: Path):
    with pytest.raises(InputError, match='"lama" is not known; did you mean "llama"'):
        lookup.model(written(tmp_path, LLAMA_8B | {"model_type": "lama"}))


def test_published_gemma_files_leave_out_defaults(tmp_path: Path):
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    path = written(tmp_path, {"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert lookup.model(path).parameters == lookup.model("gemma-3-4b").parameters


def test_layer_kinds_set_the_window_pattern(tmp_path: Path):
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    config = LLAMA_8B | {
        "model_type": "gemma3_text",
        "num_hidden_layers": 12,
        "head_dim": 256,
        "sliding_window": 512,
        "layer_types": kinds * 2,
    }
    assert lookup.model(written(tmp_path, config)).full_attention_layers == 2


def test_an_irregular_pattern_is_refused(tmp_path: Path):
    kinds = ["full_attention", "sliding_attention", "full_attention", "full_attention"]
    config = LLAMA_8B | {
        "model_type": "gemma3_text",
        "num_hidden_layers": 4,
        "head_dim": 256,
        "sliding_window": 512,
        "layer_types": kinds,
    }
    with pytest.raises(InputError, match="full attention must come at every n-th layer"):
        lookup.model(written(tmp_path, config))


def test_full_attention_may_come_first(tmp_path: Path):
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    config = LLAMA_8B | {
        "model_type": "granite_swa",
        "num_hidden_layers": 4,
        "sliding_window": 512,
        "layer_types": kinds,
    }
    model = lookup.model(written(tmp_path, config))
    assert (model.attention.full_every, model.attention.full_first) == (3, True)
    assert model.full_attention_layers == 2


@pytest.mark.parametrize(
    ("dense", "first", "pattern"), [([0, 1], 2, None), ([2], 0, "*E *E *- *E"), ([], 0, None)]
)
def test_single_dense_layers_are_where_they_are_said_to_be(dense, first, pattern, tmp_path: Path):
    config = LLAMA_8B | {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 512,
        "mlp_only_layers": dense,
    }
    model = lookup.model(written(tmp_path, config))
    assert model.moe is not None
    assert (model.moe.dense_first, model.pattern) == (first, pattern)
    assert [layer for layer in range(4) if not model.has_experts(layer)] == dense


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**41),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.text(max_size=4), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers()),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.dictionaries(st.sampled_from([*LLAMA_8B, "layer_types", "q_lora_rank"]), VALUES, max_size=5),
)
def test_any_values_are_read_or_refused_with_a_line(tmp_path, model_type, changes):
    path = written(tmp_path, LLAMA_8B | changes | {"model_type": model_type})
    try:
        assert lookup.model(path).parameters > 0
    except InputError as error:
        assert all(problem.line for problem in error.problems)  # noqa: PT017


@pytest.mark.parametrize("model_type", sorted(ARCHITECTURES))
def test_layers_without_end_are_refused_before_anything_is_made_of_each(tmp_path, model_type):
    """A list with an entry for each of a billion layers took all memory."""
    config = LLAMA_8B | {"num_hidden_layers": 2**39, "model_type": model_type}
    before = time.process_time()
    with pytest.raises(InputError):
        lookup.model(written(tmp_path, config))
    assert time.process_time() - before < 2.0


def test_an_unknown_architecture_says_what_was_read_and_offers_another_way(tmp_path: Path):
    config = LLAMA_8B | {
        "model_type": "striped",
        "stripe_dim": 96,
        "d_stripe": 7,
        "bos_token_id": 3,
    }
    with pytest.raises(InputError) as caught:
        lookup.model(written(tmp_path, config))
    said = str(caught.value)
    assert "read: num_hidden_layers 32, hidden_size 4,096, num_attention_heads 32" in said
    assert "not understood: stripe_dim, d_stripe;" in said
    assert "`syncwall capture`" in said


NEMOTRON = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "vocab_size": 131072,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "intermediate_size": 8192,
}


def test_both_spellings_of_a_pattern_are_the_same_model(tmp_path: Path):
    letters = lookup.model(written(tmp_path / "a", NEMOTRON | {"hybrid_override_pattern": "M-*-"}))
    words = ["mamba", "mlp", "attention", "mlp"]
    listed = lookup.model(written(tmp_path / "b", NEMOTRON | {"layers_block_type": words}))
    assert letters.pattern == listed.pattern == "M - * -"
    assert letters.parameters == listed.parameters


@pytest.mark.parametrize(
    ("layers", "reason"),
    [({}, '"hybrid_override_pattern" is missing'), ({"layers_block_type": ["conv"]}, '"conv" is')],
)
def test_a_pattern_that_cannot_be_read_is_named(layers, reason, tmp_path: Path):
    with pytest.raises(InputError, match=reason):
        lookup.model(written(tmp_path, NEMOTRON | layers))
