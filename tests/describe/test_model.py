import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.describe.transformer import Transformer
from tests.describe.samples import MOE, model


def test_a_dense_model_counted_by_hand():
    small = model(layers=2, hidden=8, vocab=100, attention={"heads": 4, "kv_heads": 2}, mlp={"hidden": 16})
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8
    layer = attention + 3 * 8 * 16 + 2 * 8
    assert small.parameters == 2 * layer + 8 + 2 * 100 * 8


def test_parts_sum_to_the_whole():
    count = model(moe=MOE | {"shared_hidden": 512, "dense_first": 2}).parameter_count
    parts = (
        count.embedding,
        count.attention,
        count.mlp,
        count.experts,
        count.shared_experts,
        count.router,
        count.norm,
        count.head,
    )
    assert sum(parts) == count.total
    assert all(parts)


def test_experts_come_where_the_pattern_says():
    sparse = model(moe=MOE | {"dense_first": 3, "every": 2})
    assert [layer for layer in range(8) if sparse.has_experts(layer)] == [3, 5, 7]
    assert sparse.moe_layers + sparse.dense_layers == sparse.layers


def full_layers(model: Transformer) -> list[int]:
    """Layers that attend to the whole sequence, counted one by one."""
    attention = model.attention
    every, begun = attention.full_every, (attention.full_every - 1) * attention.full_first
    return [one for one in range(model.layers) if every and (one + 1 + begun) % every == 0]


@given(st.integers(1, 40), st.integers(0, 45), st.integers(1, 9), st.integers(0, 9), st.booleans())
def test_counts_of_layers_equal_a_count_by_hand(layers, dense_first, every, full_every, first):
    patterned = model(
        layers=layers,
        attention={"heads": 32, "window": 64, "full_every": full_every, "full_first": first},
        moe=MOE | {"dense_first": dense_first, "every": every},
    )
    assert patterned.moe_layers == sum(map(patterned.has_experts, range(layers)))
    assert patterned.full_attention_layers == len(full_layers(patterned))


def test_a_hundred_thousand_layers_are_counted_at_once():
    assert model(layers=10**5, moe=MOE | {"every": 2}).moe_layers == 5 * 10**4


def test_a_token_visits_only_some_experts():
    sparse = model(mlp=None, moe=MOE)
    visited = model(mlp=None, moe=MOE | {"experts": 2})
    routers = 32 * 4096 * (8 - 2)
    assert sparse.active_parameters == visited.parameters + routers


def test_windows_come_where_the_pattern_says():
    assert model().full_attention_layers == 32
    windowed = model(attention={"heads": 32, "window": 1024})
    assert windowed.full_attention_layers == 0
    mixed = model(attention={"heads": 32, "window": 1024, "full_every": 6})
    assert full_layers(mixed) == [layer for layer in range(mixed.layers) if layer % 6 == 5]
    assert mixed.full_attention_layers == mixed.layers // 6


def test_latent_attention_has_its_own_head_sizes():
    latent = {"kv_rank": 512, "q_rank": 1536, "nope_dim": 128, "rope_dim": 64, "v_dim": 128}
    mla = model(hidden=7168, attention={"heads": 128, "latent": latent})
    assert (mla.head_dim, mla.v_head_dim) == (192, 128)


def test_prediction_of_further_tokens_is_counted_apart():
    plain, further = model(), model(mtp_layers=1)
    assert further.parameters == plain.parameters
    assert further.parameter_count.mtp > plain.parameter_count.total / 40


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mlp": None}, "needs `mlp`, `moe`, or both"),
        ({"mlp": None, "moe": MOE | {"dense_first": 1}}, "1 dense layers need `mlp`"),
        ({"attention": {"heads": 30}}, "30 heads do not divide hidden 4096"),
        ({"attention": {"heads": 32, "kv_heads": 5}}, "5 kv_heads do not divide 32 heads"),
        ({"moe": MOE | {"top_k": 9}}, "top_k 9 of only 8 experts"),
        ({"layers": 0}, "write 1 to 100,000"),
        ({"layres": 3}, "Extra inputs"),
    ],
)
def test_models_that_cannot_be_are_refused(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        model(**changes)
