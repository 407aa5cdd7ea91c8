"""What the words of a row say of its software."""

import pytest

from syncwall.describe import lookup
from syncwall.describe.layout import Dispatcher, Shard
from syncwall.validate.table_machines import CannotRepresent, model_of, software_of, switches_of
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
