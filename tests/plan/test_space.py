import syncwall as sw
from syncwall.ask.plan import pins
from syncwall.describe import Layout, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.switches import Lora
from syncwall.plan.best_layout import kept
from syncwall.plan.space import Space


def space(framework: str = "megatron-core", **pinned) -> Space:
    model = sw.model("llama-3.1-8b")
    return Space.of(model, 8192, 64, Software(framework=framework), pinned)


def test_a_field_that_holds_a_row_of_words_has_one_value():
    modules = ("layernorm", "moe_act")
    assert space(recompute_modules=modules).base.recompute_modules == modules
    assert space(order=("tp", "cp", "ep", "pp", "dp")).pinned["order"] == (("tp", "cp", "ep", "pp", "dp"),)


def test_a_layout_that_is_kept_keeps_its_formats():
    layout = Layout(kept_gradient_dtype="bf16", recompute_modules=["mlp"]).plain()
    base = space(**kept(layout)).base
    assert base.kept_gradient_dtype is Dtype.BF16
    assert base.recompute_modules == ("mlp",)


def test_formats_follow_from_the_framework():
    assert space("pytorch").base.kept_gradient_dtype is Dtype.FP32
    assert space("internevo").base.kept_gradient_dtype is Dtype.BF16


def test_adapters_freeze_the_weights_of_every_layout():
    found = pins({"layout.lora": "{rank: 8, weights: nf4}"})
    base = space(lora=found["lora"]).base
    assert base.lora == Lora.model_validate({"rank": 8, "weights": "nf4"})
    assert base.frozen_weights
