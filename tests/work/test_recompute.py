import pytest

import syncwall as sw
from syncwall.describe import Layout
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.layout_switches import LAST, in_modules
from syncwall.work.rank_layers import expert_parts
from syncwall.work.transformer_step import recomputed


def names(modules, **fields):
    shape = Shape(sw.model("deepseek-v3"), Layout.model_validate(fields).resolved(64), 4096)
    parts = [*attention_parts(shape), *mlp_parts(shape), *expert_parts(shape)]
    return {part.name for part in parts if in_modules(part, modules)}


@pytest.mark.parametrize(
    ("module", "some", "never"),
    [
        ("core_attn", {"attention"}, {"output projection"}),
        ("layernorm", {"attention norm", "MLP norm", "expert norm"}, {"query norm"}),
        ("mla_up_proj", {"query up", "key value up"}, {"query down"}),
        ("moe_act", {"experts activation"}, {"experts up"}),
        ("shared_experts", {"shared experts up"}, {"experts up"}),
        ("moe", {"dispatch", "experts up", "shared experts up"}, {"MLP up", "expert norm"}),
        ("mlp", {"MLP up", "MLP down"}, {"experts up"}),
    ],
)
def test_modules_repeat_their_parts(module, some, never):
    found = names([module], ep=8)
    assert some <= found
    assert not never & found


def test_what_stops_early_leaves_out_the_last_multiplication():
    shape = Shape(sw.model("llama-3.1-8b"), Layout().resolved(8), 4096)
    for early in (True, False):
        layout = Layout(recompute="full", recompute_stops_early=early).resolved(8)
        shares = {part.name: part.recomputed for part in recomputed(mlp_parts(shape), layout, 1.0)}
        assert [shares[name] for name in LAST & set(shares)] == [0.0 if early else 1.0]
        assert shares["MLP up"] == 1.0
