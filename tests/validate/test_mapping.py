import pytest

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Dispatcher, Recompute, Schedule, Shard
from syncwall.validate.machine import CannotRepresent
from syncwall.validate.mapping import case_of
from tests.validate.samples import known, row


def test_a_dense_model_with_a_pipeline():
    case = case_of(known("korthikanti22-1T-selective"))
    model, layout = case.model, case.layouts[0]
    assert (model.layers, model.hidden, model.attention.heads) == (128, 25600, 160)
    assert model.mlp is not None
    assert (model.mlp.hidden, model.mlp.gated) == (102400, False)
    assert (case.cluster.device.name, case.cluster.gpus) == ("a100-sxm-80", 512)
    assert (layout.tp, layout.pp, layout.dp, layout.sp) == (8, 64, 1, True)
    assert (layout.micro_batch, layout.global_batch, case.seq) == (1, 512, 2048)
    assert (layout.shard, layout.precision) == (Shard.DDP, Dtype.FP16)
    assert (layout.recompute, layout.schedule) == (Recompute.SELECTIVE, Schedule.ONE_F_ONE_B)
    assert (case.software.framework, case.measured_s) == ("megatron-lm", 71.49)
    assert (case.open_fields, len(case.layouts)) == ((), 1)


def test_fully_sharded_data_parallelism_with_recomputation_by_operation():
    case = case_of(known("titan-202412-t1-0"))
    layout = case.layouts[0]
    assert case.cluster.device.name == "h100-sxm-500w"
    assert (layout.shard, layout.shard_degree, layout.dp) == (Shard.FSDP, 8, 8)
    assert layout.recompute == Recompute.OPERATIONS
    assert (case.software.framework, case.software.kernels) == ("torchtitan", "eager")
    assert case.measured_s == pytest.approx(2.8435)


def test_a_source_that_reduces_gradients_in_16_bits():
    case = case_of(known("mosaic-old-a100_80gb-125m-s512-g8-mb128-L161"))
    layout = case.layouts[0]
    assert (case.software.framework, layout.gradient_dtype) == ("llm-foundry", Dtype.BF16)
    assert (layout.micro_batch, layout.global_batch) == (128, 2048)


def test_experts_on_a_rack():
    case = case_of(known("mbridge-26.06.01-pretrain-Qwen3_235B_a22B-GB300-MXFP8-g256-gbs8192-1"))
    moe, layout = case.model.moe, case.layouts[0]
    assert moe is not None
    assert (moe.experts, moe.top_k, moe.hidden) == (128, 8, 1536)
    assert (case.cluster.device.name, case.cluster.domain_gpus) == ("gb300", 72)
    assert (layout.pp, layout.virtual_stages, layout.ep, layout.dp) == (4, 12, 32, 64)
    assert (layout.precision, layout.schedule) == (Dtype.MXFP8, Schedule.INTERLEAVED)
    assert (case.software.framework, case.software.date) == ("megatron-bridge", "2026-06")
    assert (case.software.graphs, layout.dispatcher) == ("full", Dispatcher.HYBRIDEP)
    assert layout.overlap_ep


def test_what_a_source_leaves_open_becomes_candidates():
    case = case_of(row(mbs="", pp="2", framework="something new"))
    assert set(case.open_fields) >= {"micro_batch"}
    assert len(case.layouts) > 1


@pytest.mark.parametrize(
    ("columns", "step_s"),
    [
        ({"tokens_per_s_per_gpu": "1000"}, 64 * 8192 / 16_000),
        ({"tokens_per_s": "32000"}, 64 * 8192 / 32_000),
        ({"samples_per_s": "8"}, 8.0),
    ],
)
def test_a_rate_is_as_good_as_a_time(columns, step_s):
    assert case_of(row(step_time_s="", **columns)).measured_s == pytest.approx(step_s)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"tp": ""}, "the source gives no tp"),
        ({"heads": ""}, "the source gives no heads"),
        ({"family": "hybrid"}, "hybrid's layers"),
        ({"gpu": "TPU v5p"}, "no machine with a TPU v5p is known"),
        ({"gbs": "3"}, "not a multiple"),
        ({"step_time_s": ""}, "no step time or rate"),
        ({"precision": "fp7"}, "fp7"),
    ],
)
def test_what_cannot_be_said_is_refused_with_a_reason(columns, reason):
    with pytest.raises(CannotRepresent, match=reason):
        case_of(row(**columns))


@pytest.mark.parametrize(
    ("columns", "name", "nodes"),
    [
        ({"gpu": "A100-SXM", "gpu_mem_gb": "40"}, "a100-sxm-40", 2),
        ({"gpu": "A100-SXM", "gpu_mem_gb": "80"}, "a100-sxm-80", 2),
        ({"gpu": "A100-SXM", "gpu_mem_gb": "64", "gpus_per_node": "4"}, "a100-sxm-64", 4),
        ({"gpu": "A100-PCIE", "gpu_mem_gb": "80"}, "a100-pcie-80", 2),
        ({"gpu": "A800-SXM", "gpu_mem_gb": "80"}, "a800-sxm-80", 2),
        ({"gpu": "GH200", "gpu_mem_gb": "96", "gpus_per_node": "4"}, "gh200", 4),
        ({"gpu": "H100-SXM", "gpu_mem_gb": "64", "gpus_per_node": "4"}, "h100-sxm-64", 4),
        ({"gpu": "H100-SXM-HBM2e-96GB (500W)", "gpu_mem_gb": "96"}, "h100-sxm-500w", 2),
        ({"gpu": "H20", "gpu_mem_gb": "96"}, "h20", 2),
    ],
)
def test_variants_of_devices_are_read_by_name_and_memory(columns, name, nodes):
    case = case_of(row(**columns))
    assert (case.cluster.device.name, case.cluster.nodes) == (name, nodes)
    assert "device" not in case.unsaid


def test_links_of_a_variant_and_of_a_board_of_four():
    cut = case_of(row(gpu="A800-SXM", gpu_mem_gb="80")).cluster
    assert cut.scale_up is not None
    assert cut.scale_up.rate_bytes_per_s == 200e9
    board = case_of(row(gpu="A100-SXM", gpu_mem_gb="80", gpus_per_node="4")).cluster
    assert board.scale_up is not None
    assert (board.node.gpus, board.scale_up.topology) == (4, "mesh")
    slots = case_of(row(gpu="A100-PCIE", gpu_mem_gb="80")).cluster
    assert slots.scale_up is not None
    assert slots.scale_up.topology == "pcie"


def test_a_power_limit_and_an_odd_memory_are_taken_as_stated():
    chip = case_of(row(gpu="H100-SXM (400W)", gpu_mem_gb="48")).cluster.device
    assert (chip.like, chip.power_limit_w, chip.memory.size_bytes) == ("h100-sxm", 400, 48 * 2**30)
    assert chip.clock_share == pytest.approx((400 / 700) ** 0.5)


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({"gpu_mem_gb": "80", "inter_gbps_per_gpu": "400"}, ()),
        ({"gpu_mem_gb": "80"}, ("fabric",)),
        ({"gpu_mem_gb": "80", "gpus": "8", "gbs": "64"}, ()),
        ({"inter_gbps_per_gpu": "400"}, ("device",)),
        ({"gpu_mem_gb": "80", "framework": "in-house"}, ("framework", "fabric")),
        ({"gpu_mem_gb": "48", "inter_gbps_per_gpu": "400"}, ("device",)),
    ],
)
def test_what_had_to_be_assumed_is_said(columns, left):
    assert case_of(row(**columns)).unsaid == left


@pytest.mark.parametrize(
    ("words", "link"),
    [
        ("RoCE 8x200G per node", "roce"),
        ("Slingshot-11", "slingshot"),
        ("EFA", "efa"),
        ("Compute: 8x ConnectX-7 IB NDR, Management: Ethernet", "infiniband"),
        ("", "infiniband"),
    ],
)
def test_networks_are_read_from_their_words(words, link):
    nics = case_of(row(inter_link=words, gpu_mem_gb="80")).cluster.node.nics
    assert nics is not None
    assert (nics.link or "").startswith(link)
