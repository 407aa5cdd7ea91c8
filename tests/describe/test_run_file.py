"""A run written as a run file is the same run when it is read."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.catalogue import CatalogueKind, names
from syncwall.describe import Layout, Run, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.files import run_text
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.switches import MasterWeights, NarrowActivations, Optimizer
from tests.describe.samples import MOE, cluster, model


def read_back(run: Run) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.yaml"
        path.write_text(run_text(run), encoding="utf-8")
        return lookup.run(path)


def test_what_the_catalogue_has_is_named_and_what_is_open_left_out():
    run = Run(model="llama-3.1-8b", cluster="dgx-h100", gpus=32, layout=Layout(tp=2, shard="fsdp"))
    plain = yaml.safe_load(run_text(run))
    assert (plain["model"], plain["cluster"]) == ("llama-3.1-8b", "dgx-h100")
    assert (plain["nodes"], plain["gpus_per_node"], plain["seq"]) == (4, 8, 8192)
    assert (plain["layout"]["shard"], plain["layout"]["dp"]) == ("fsdp", 16)
    assert not {"recompute", "precision", "micro_batch", "overlap_tp"} & set(plain["layout"])
    assert "framework" not in plain["software"]
    assert read_back(run) == run


def test_what_differs_from_the_catalogue_is_written_in_place():
    known = lookup.cluster("dgx-h100")
    faster = known.node.nics.model_copy(update={"rate_bytes_per_s": 100e9})  # type: ignore[union-attr]
    other = known.model_copy(update={"node": known.node.model_copy(update={"nics": faster})})
    small = lookup.model("llama-3.1-8b").model_copy(update={"layers": 16})
    run = Run(model=small, cluster=other, nodes=2)
    plain = yaml.safe_load(run_text(run))
    assert plain["model"]["layers"] == 16
    assert plain["cluster"]["node"]["nics"]["rate_bytes_per_s"] == 100e9
    assert read_back(run) == run


def test_more_nodes_than_the_entry_of_that_name_has():
    mine = lookup.cluster("selene").model_copy(update={"built_nodes": 10**4})
    run = Run(model="llama-3.1-8b", cluster=mine, nodes=2000)
    assert read_back(run) == run


@pytest.mark.parametrize("name", names(CatalogueKind.CLUSTER))
def test_every_machine_can_be_described_in_place(name):
    mine = lookup.cluster(name).model_copy(update={"name": "mine", "note": "ours: 50%, #1"})
    run = Run(model="llama-3.1-8b", cluster=mine)
    assert isinstance(yaml.safe_load(run_text(run))["cluster"], dict)
    assert read_back(run) == run


@pytest.mark.parametrize("name", names(CatalogueKind.MODEL))
def test_every_model_can_be_described_in_place(name):
    mine = lookup.model(name).model_copy(update={"name": "mine"})
    seq = mine.train_seq if mine.patches else 1024
    run = Run(model=mine, cluster="dgx-h100", seq=seq)
    assert isinstance(yaml.safe_load(run_text(run))["model"], dict)
    assert read_back(run) == run


ENTRIES: dict[str, Any] = {
    "model": ["llama-3.1-8b", "mixtral-8x7b", model(), model(moe=MOE, mlp=None)],
    "cluster": ["dgx-h100", "gb200-nvl72", cluster(), cluster(gpus=4)],
}
_SOME = {
    "shard": st.sampled_from(Shard),
    "micro_batch": st.sampled_from([1, 2]),
    "global_batch": st.just(256),
    "schedule": st.sampled_from(Schedule),
    "virtual_stages": st.sampled_from([1, 2]),
    "precision": st.sampled_from(Dtype),
    "gradient_dtype": st.sampled_from([Dtype.FP32, Dtype.BF16]),
    "bucket_bytes": st.floats(1, 1e12),
    "recompute": st.sampled_from(Recompute),
    "recompute_layers": st.integers(0, 9),
    "kept_gathered_inputs": st.floats(0, 4),
    "kept_gradient_dtype": st.sampled_from([Dtype.FP32, Dtype.BF16]),
    "moment_dtype": st.sampled_from([Dtype.FP32, Dtype.BF16]),
    "optimizer": st.sampled_from(Optimizer),
    "master_weights": st.sampled_from(MasterWeights),
    "narrow_activations": st.sampled_from(NarrowActivations),
    "recompute_modules": st.lists(st.sampled_from(["layernorm", "moe_act", "mlp"]), max_size=3),
    "offload_layers": st.integers(0, 9),
    "loss_chunks": st.integers(1, 9),
    "tp_exposed_share": st.floats(0.01, 1),
    "expert_imbalance": st.floats(1, 3),
    "capacity_factor": st.floats(0.5, 3),
    "dispatcher": st.sampled_from(Dispatcher),
    "cp_kind": st.sampled_from(ContextKind),
    "order": st.permutations(["tp", "cp", "ep", "dp", "pp"]),
    "outer_every": st.integers(1, 99),
} | {
    name: st.booleans()
    for name in (
        "overlap_gradients",
        "overlap_parameters",
        "overlap_tp",
        "overlap_pp",
        "async_tp",
        "balanced_stages",
        "fused_loss",
        "overlap_ep",
        "dropless",
        "frozen_weights",
        "fp8_dispatch",
        "offload_optimizer",
        "separate_gradients",
        "narrow_weights",
        "recompute_stops_early",
        "kept_attention_scores",
        "fused_norms",
        "fused_gate",
        "dropout",
    )
}
_SOFTWARE = {
    "framework": st.sampled_from(names(CatalogueKind.FRAMEWORK)),
    "date": st.sampled_from(["2023-01", "2025-10"]),
    "kernels": st.sampled_from(["fused", "eager"]),
    "fp8_scaling": st.sampled_from(["tensor", "block", "row"]),
    "expert_kernels": st.sampled_from(["grouped", "loop"]),
    "graphs": st.sampled_from(["none", "router", "attention", "full"]),
}


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any run: by name or in place, little stated or much."""
    sizes = {name: draw(st.sampled_from([1, 2])) for name in ("tp", "pp", "cp")}
    fields = draw(st.fixed_dictionaries({}, optional=_SOME))
    software = Software(**draw(st.fixed_dictionaries({}, optional=_SOFTWARE)))
    stated = {name: draw(st.sampled_from(values)) for name, values in ENTRIES.items()}
    layout = Layout(**sizes, sp=sizes["tp"] > 1 and draw(st.booleans()), **fields)
    nodes = draw(st.sampled_from([2, 4]))
    try:
        return Run(**stated, nodes=nodes, layout=layout, software=software, seq=2048)
    except ValidationError:  # stages that do not go with the schedule, one copy that meets nobody
        open_again = {"schedule": None, "virtual_stages": None, "outer_every": None}
        plain = layout.model_copy(update=open_again)
        return Run(**stated, nodes=nodes, layout=plain, software=software, seq=2048)


@given(runs())
def test_any_run_comes_back(run):
    assert read_back(run) == run
