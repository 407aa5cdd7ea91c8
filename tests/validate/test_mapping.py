import pytest

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.switches import Optimizer
from syncwall.validate.mapping import case_of
from syncwall.validate.table_models import CannotRepresent
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
        ({"gpu": "GH200", "gpu_mem_gb": "96", "gpus_per_node": "4"}, "gh200-680w", 4),
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


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("RTX PRO 6000", "rtx-pro-6000"),
        ("A6000", "rtx-a6000"),
        ("A10G", "a10g"),
        ("Tesla T4", "t4"),
        ("L40S", "l40s"),
        ("L4", "l4"),
        ("V100-PCIe 16GB", "v100-pcie-16"),
    ],
)
def test_cards_of_workstations_and_clouds_are_known(gpu, name):
    case = case_of(row(gpu=gpu, gpu_mem_gb="", gpus="1", tp="1", gpus_per_node="1", gbs="8"))
    assert case.cluster.device.name == name


def test_a_slot_is_as_fast_as_the_card_allows():
    rates = {
        gpu: case_of(
            row(gpu=gpu, gpu_mem_gb="", gpus="4", tp="1", gpus_per_node="4", gbs="8")
        ).cluster.scale_up
        for gpu in ("T4", "L40S", "RTX 5090")
    }
    assert [round(one.rate_bytes_per_s / 1e9, 1) for one in rates.values() if one] == [15.8, 31.5, 63.0]


def test_several_nodes_need_a_rate_between_them():
    two = {"gpu": "L40S", "gpu_mem_gb": "", "gpus": "16", "gpus_per_node": "8", "tp": "1", "gbs": "16"}
    with pytest.raises(CannotRepresent, match="the rate between nodes with a L40S is not known"):
        case_of(row(**two))
    nics = case_of(row(**two, inter_gbps_per_gpu="25")).cluster.node.nics
    assert nics is not None
    assert nics.rate_bytes_per_s * nics.count == 8 * 25e9 / 8


def test_adapters_and_the_format_of_what_they_leave_frozen():
    columns = {"lora_rank": "16", "lora_targets": "q_proj;v_proj;output_proj", "frozen_weights": "nf4"}
    layout = case_of(row(**columns)).layouts[0]
    assert layout.frozen_weights
    assert layout.lora is not None
    assert (layout.lora.rank, layout.lora.weights) == (16, "nf4")
    assert layout.lora.targets == ("q_proj", "v_proj", "o_proj")


@pytest.mark.parametrize(
    ("words", "kind"),
    [("AdamW", "adam"), ("paged adamw-8bit", "adam-8bit"), ("Muon + AdamW", "muon"), ("sgd", "sgd")],
)
def test_optimizers_are_read_by_their_names(words, kind):
    assert case_of(row(optimizer=words)).layouts[0].optimizer == Optimizer.read(kind)


def test_a_model_of_the_catalogue_needs_no_sizes():
    sizes = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab"), "")
    assert case_of(row(model="llama-3.1-8b", **sizes)).model.layers == 32


def test_encoders_and_vision_transformers_in_other_sizes():
    base = case_of(
        row(
            family="encoder",
            model="BERT-base",
            layers="12",
            hidden="768",
            heads="12",
            ffn_hidden="3072",
            seq_len="128",
            vocab="30522",
        )
    ).model
    assert 0.10e9 < base.parameters < 0.12e9
    assert not base.attention.causal
    large = case_of(
        row(
            family="vit",
            model="ViT-L/16",
            layers="24",
            hidden="1024",
            heads="16",
            ffn_hidden="4096",
            seq_len="197",
        )
    ).model
    assert 0.29e9 < large.parameters < 0.31e9


def test_a_sliding_window_and_a_power_limit_have_columns():
    case = case_of(row(sliding_window="1024", power_limit_w="300", gpu="A100-SXM", gpu_mem_gb="80"))
    assert case.model.attention.window == 1024
    assert case.cluster.device.power_limit_w == 300
