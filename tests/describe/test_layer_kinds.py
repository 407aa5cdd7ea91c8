import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.describe.layer_kinds import kind_counts
from tests.describe.samples import MOE, model

MIXER = {"kind": "mamba-2", "heads": 64, "head_dim": 64, "key_heads": 8, "key_dim": 128}
WORDS = ("M", "*", "-", "E", "M-", "ME", "*-", "*E")


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=20), st.integers(1, 5))
def test_every_layer_is_of_one_kind_and_shares_add_up(words, times):
    kinds = kind_counts(" ".join(words), len(words) * times)
    assert sum(kind.count for kind in kinds) == len(words) * times
    for experts in (False, True):
        shares = [kind.share for kind in kinds if kind.has_experts == experts]
        assert not shares or sum(shares) == pytest.approx(1.0)
    assert sum(kind.count * kind.blocks for kind in kinds) == len("".join(words)) * times


def test_kinds_have_names_that_say_what_they_are():
    kinds = kind_counts("M * - E M- ME *- *E", 8)
    assert {kind.words for kind in kinds} == {
        "mixer layer",
        "attention layer",
        "MLP layer",
        "expert layer",
        "mixer and MLP layer",
        "mixer and expert layer",
        "dense layer",
    }


def test_a_pattern_is_repeated_and_says_where_experts_are():
    hybrid = model(pattern="M- ME *- ME", mixer=MIXER, moe=MOE, layers=32)
    assert [hybrid.has_experts(layer) for layer in range(5)] == [False, True, False, True, False]
    assert (hybrid.moe_layers, hybrid.dense_layers) == (16, 16)
    assert (hybrid.attention_layers, hybrid.mixer_layers) == (8, 24)
    assert hybrid.full_attention_layers == 8


def test_a_pattern_of_nothing_but_attention_changes_no_count():
    plain, written = model(), model(pattern="*-")
    assert written.parameter_count == plain.parameter_count
    sparse = {"moe": MOE, "mlp": None}
    assert model(pattern="*E", **sparse).parameter_count == model(**sparse).parameter_count


def test_layers_of_one_part_have_half_of_the_norms():
    pairs, single = model(pattern="*-"), model(pattern="* -", layers=64)
    assert single.parameter_count == pairs.parameter_count


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pattern": "X-"}, '"X-" in it is none'),
        ({"pattern": "-*"}, "each M or \\* and then - or E"),
        ({"pattern": " "}, "it is empty"),
        ({"pattern": "*- *- *-"}, "3 layers does not divide 32"),
        ({"pattern": "M-"}, "`M` in the pattern and `mixer` go together"),
        ({"pattern": "*-", "mixer": MIXER}, "`M` in the pattern and `mixer` go together"),
        ({"pattern": "*E", "mlp": None}, "`E` in the pattern and `moe` go together"),
        ({"mixer": MIXER}, "needs a `pattern`"),
        (
            {"pattern": "*- *E", "moe": MOE | {"every": 2}},
            "leave out dense_first, every",
        ),
        ({"pattern": "*-", "attention": {"heads": 32, "window": 128}}, "window is not described"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        model(**changes)
