"""What the words of a row say of its software."""

import pytest

from syncwall.describe import lookup
from syncwall.describe.layout import Dispatcher, Shard
from syncwall.validate.mapping import case_of
from syncwall.validate.table_machines import software_of, switches_of
from syncwall.validate.table_models import CannotRepresent, model_of
from tests.validate.samples import row

BRIDGE = "Megatron-Bridge/NeMo 26.08"


@pytest.mark.parametrize(
    ("framework", "name", "date"),
    [
        (BRIDGE, "megatron-bridge", "2026-08"),
        ("NeMo 25.04", "megatron-core", "2025-04"),
        ("NeMo AutoModel 26.02", "nemo-automodel", "2026-02"),
        ("PyTorch 2.6 FSDP", "pytorch", "2025-01"),
        ("PyTorch 2.10 FSDP", "pytorch", "2026-01"),
    ],
)
def test_a_framework_and_its_month(framework, name, date):
    found = software_of(row(framework=framework))
    assert (found.framework, found.date) == (name, date)


@pytest.mark.parametrize(
    ("options", "graphs"),
    [
        ("cuda_graph_impl=full_iteration;preset=X", "full"),
        ("cuda_graph_scope=['attn', 'moe_router', 'moe_preprocess'];preset=X", "attention"),
        ("cuda_graph_scope=['moe_router', 'moe_preprocess'];preset=X", "router"),
        ("CUDA graphs attn+router;force balance", "attention"),
        ("preset=X", "none"),
        ("cuda graphs off", "none"),
        ("force-balanced routing", None),
    ],
)
def test_graphs_are_those_that_are_named(options, graphs):
    assert software_of(row(framework=BRIDGE, options=options)).graphs == graphs


@pytest.mark.parametrize(
    ("options", "dispatcher", "overlapped"),
    [
        ("moe_flex_dispatcher_backend=hybridep;moe_a2a_overlap=True;preset=X", Dispatcher.HYBRIDEP, True),
        ("dispatcher=DeepEP;1f1b overlap", Dispatcher.DEEPEP, True),
        ("preset=X;force-balanced routing", Dispatcher.ALL_TO_ALL, False),
        ("force-balanced routing", Dispatcher.HYBRIDEP, True),  # as its recipes do
        ("tokendrop", Dispatcher.ALL_TO_ALL, True),
    ],
)
def test_tokens_are_exchanged_as_a_row_says_or_as_its_framework_does(options, dispatcher, overlapped):
    one = row(framework=BRIDGE, options=options)
    found = switches_of(one, software_of(one), Shard.ZERO1)
    assert (found["dispatcher"], found["overlap_ep"]) == (dispatcher, overlapped)


@pytest.mark.parametrize(
    ("changes", "kernels"),
    [
        ({}, None),
        ({"options": "DeepEP"}, "grouped"),
        ({"options": "grouped GEMM"}, "grouped"),
        ({"ep": "8"}, "grouped"),
    ],
)
def test_experts_of_several_ranks_are_no_loop_of_the_host(changes, kernels):
    one = row(**({"framework": "PyTorch 2.6 FSDP"} | changes))
    assert software_of(one).expert_kernels == kernels


@pytest.mark.parametrize(
    ("name", "known"),
    [("Nemotron-H 56B", "nemotron-h-56b"), ("Nemotron_3_Super", "nemotron-3-super")],
)
def test_a_hybrid_is_the_one_of_that_name(name, known):
    hybrid = {"family": "hybrid-moe", "model": name, "layers": "", "hidden": "", "heads": ""}
    assert model_of(row(**hybrid)) == lookup.model(known)


def test_a_hybrid_with_other_layers_is_another():
    with pytest.raises(CannotRepresent, match="nemotron-h-56b has layers 118, not 98"):
        model_of(row(family="hybrid", model="Nemotron-H 56B", layers="98", hidden=""))


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        ("single GPU; eager; attention written out; non-fused AdamW", ("unfused", "eager", False)),
        ("torch.compile; SDPA flash; fused AdamW", ("flash-2", "fused", True)),
        ("compiled, no flash attention", ("unfused", "fused", None)),
        (
            "teaching code: unfused attention (scores materialised), plain Python AdamW",
            ("unfused", None, False),
        ),
        ("no compile; eager attention", ("unfused", "eager", None)),
        ("own attention, compile not stated", (None, None, None)),
        ("HF model; AdamW not fused", (None, None, False)),
    ],
)
def test_kernels_are_those_that_a_row_names(options, stated):
    software = software_of(row(framework="plain PyTorch", options=options))
    assert (software.attention, software.kernels, software.fused_optimizer) == stated


@pytest.mark.parametrize(
    ("framework", "year", "kernel"),
    [("Megatron-LM", "2024", "flash-2"), ("Megatron-LM", "2023", "flash-1"), ("torchtitan", "2025", None)],
)
def test_flash_attention_is_that_of_its_year_unless_the_framework_has_its_own(framework, year, kernel):
    assert software_of(row(framework=framework, year=year, options="flash attention")).attention == kernel


@pytest.mark.parametrize(
    ("cells", "norm", "rotary"),
    [
        ({"gated_mlp": "false", "model": "GPT-2 124M"}, "layer", False),
        ({"gated_mlp": "false", "model": "Pythia 1B"}, "layer", True),
        ({"gated_mlp": "false", "model": "nanochat d20"}, "rms", True),
        ({"gated_mlp": "true", "model": "Llama 3 8B"}, "rms", True),
    ],
)
def test_norms_and_positions_are_those_of_its_kind(cells, norm, rotary):
    found = model_of(row(**cells))
    assert (found.norm.kind, found.has_rotary_positions) == (norm, rotary)


def test_adapters_of_which_nothing_is_said_are_usual_ones():
    layout = case_of(row(shard="LoRA")).layouts[0]
    assert layout.frozen_weights
    assert layout.lora is not None
    assert (layout.lora.rank, set(layout.lora.targets)) == (16, {"q_proj", "k_proj", "v_proj", "o_proj"})
