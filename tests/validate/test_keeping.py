import pytest

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Recompute, Shard
from syncwall.describe.switches import MasterWeights, NarrowActivations
from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.table_machines import software_of
from tests.validate.samples import known, row


def layout(**cells: str):
    return case_of(row(**cells)).layouts[0]


@pytest.mark.parametrize(
    ("detail", "modules"),
    [
        ("modules=layernorm,moe_act", ("layernorm", "moe_act")),
        ("moe_act layernorm", ("layernorm", "moe_act")),
        ("layernorm moe", ("layernorm", "moe")),
        ("norm, act", ("layernorm", "moe_act")),
        ("modules=mla_up_proj,mlp", ("mla_up_proj", "mlp")),
        ("", ("core_attn",)),
    ],
)
def test_modules_are_read_from_the_detail(detail, modules):
    found = layout(recompute="selective", recompute_detail=detail)
    assert found.recompute is Recompute.SELECTIVE
    assert found.recompute_modules == modules


@pytest.mark.parametrize(
    ("model", "framework", "packed"),
    [
        ("Llama 3 8B SFT", "NeMo 24.12", True),
        ("LLAMA3_70B LORA", "Megatron-Bridge/NeMo 26.06", True),
        ("Llama 2 70B LoRA", "NVIDIA MLPerf v5.0", False),
        ("Llama 3 8B", "NeMo 24.12", False),
        ("Llama 2 7B SFT (PaxML)", "PaxML (JAX)", False),
    ],
)
def test_recipes_of_nemo_pack_short_examples(model, framework, packed):
    assert (layout(model=model, framework=framework).document_tokens is not None) is packed


def test_packed_fine_tuning_of_8b_is_within_12_percent():
    """As whole sequences these runs were predicted 15 to 22% too slow."""
    sizes = [(dtype, gpus) for dtype in ("bf16", "fp8") for gpus in (8, 16, 32)]
    names = [f"dgxc-v25.02-Llama_3_8B-sft-{dtype}-H100-{gpus}" for dtype, gpus in sizes]
    found = outcomes([case_of(known(name)) for name in names])
    assert max(one.ratio for one in found) < 1.12


def test_layers_and_optimizers_on_the_host():
    assert layout(recompute_detail="cpu_offload_layers=20").offload_layers == 20
    assert layout(framework="DeepSpeed", options="CPU AdamW offload").offload_optimizer
    assert not layout().offload_optimizer


@pytest.mark.parametrize(
    ("framework", "reduced", "kept"),
    [
        ("NeMo 25.04", Dtype.BF16, Dtype.BF16),
        ("Megatron-Bridge/NeMo 26.02", Dtype.BF16, Dtype.BF16),
        ("NVIDIA MLPerf v5.0", Dtype.BF16, Dtype.BF16),
        ("Megatron-Core", Dtype.FP32, Dtype.FP32),
        ("torchtitan FSDP2", Dtype.FP32, Dtype.FP32),
        ("PyTorch FSDP", Dtype.BF16, Dtype.FP32),
        ("DeepSpeed ZeRO-3", Dtype.BF16, Dtype.BF16),
    ],
)
def test_gradients_have_the_format_of_the_recipes(framework, reduced, kept):
    found = layout(framework=framework, tp="1")
    assert (found.gradient_dtype, found.kept_gradient_dtype) == (reduced, kept)


def test_weights_have_the_bits_that_a_framework_gives_them():
    assert layout(framework="PyTorch FSDP").master_weights == MasterWeights.STORED
    pure = layout(framework="PyTorch FSDP", options="bf16-true")
    assert pure.master_weights == MasterWeights.NONE
    assert (pure.kept_gradient_dtype, pure.moment_dtype) == (Dtype.BF16, Dtype.BF16)
    assert layout(framework="NeMo 24.07").master_weights == MasterWeights.REMAINDER
    assert layout(framework="NeMo 25.04").master_weights == MasterWeights.COPY


def test_a_loss_in_chunks():
    assert layout(options="chunked cross-entropy").loss_chunks == 8
    assert layout(options="Liger kernels").loss_chunks == 32  # 128,256 over 4,096


@pytest.mark.parametrize(("stated", "device"), [("40", "a100-sxm-40"), ("80", "a100-sxm-80")])
def test_variants_of_a_device(stated, device):
    found = case_of(row(gpu="A100-SXM", gpu_mem_gb=stated)).cluster.device
    assert found.name == device


def test_memory_that_no_variant_has():
    found = case_of(row(gpu="H100-SXM", gpu_mem_gb="48")).cluster.device
    assert found.memory.size_bytes == 48 * 2**30


def test_a_run_that_would_not_fit_recomputes_what_it_does_not_mention():
    silent = {"recompute": "", "framework": "NeMo 25.04"}
    large = {"mbs": "8", "tp": "1", "gbs": "128"}
    assert {one.recompute for one in case_of(row(**silent)).layouts} == {Recompute.NONE}
    assert Recompute.FULL in {one.recompute for one in case_of(row(**silent, **large)).layouts}


def test_selective_in_pytorch_may_be_some_layers():
    found = case_of(row(framework="PyTorch FSDP", recompute="selective", tp="1")).layouts
    assert {one.recompute for one in found} == {Recompute.OPERATIONS, Recompute.FULL}


def test_deepseek_v3_fits_as_published():
    """Recomputation, formats and DualPipe of the report, from the words of its row."""
    case = case_of(known("deepseek-v3-pretrain-h800"))
    (found,) = outcomes([case])
    assert found.layout.narrow_activations == NarrowActivations.ACTIVATIONS
    assert found.fits


PLAIN = {"framework": "plain PyTorch", "tp": "1", "pp": "1", "recompute": "none"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("flash attention, overlapped p2p", False),
        ("attention written out", True),
        ("no flash attention", True),
    ],
)
def test_attention_is_as_the_options_say(options, kept):
    """Megatron-LM of 2022 keeps the scores if nothing is said."""
    old = {"framework": "Megatron-LM", "year": "2022"}
    assert layout(**old).kept_attention_scores
    assert layout(**old, options=options).kept_attention_scores is kept


def test_a_version_of_flash_attention_that_is_not_stated_is_that_of_the_framework():
    assert (
        software_of(row(framework="llm-foundry", year="2023", options="triton flash attention")).attention
        is None
    )


@pytest.mark.parametrize(
    "words",
    [
        {"precision": "bf16 (weights, gradients and AdamW states all bf16)"},
        {"precision": "fp16 (whole model in half, no master weights)"},
        {"options": "full fine-tuning, bf16 weights and AdamW states"},
        {"flags": "weights held in the named precision"},
    ],
)
def test_pure_16_bit_training_is_read(words):
    assert layout(**PLAIN).master_weights is MasterWeights.STORED
    assert layout(**PLAIN | words).master_weights is MasterWeights.NONE
    wide = layout(**PLAIN | words | {"precision": "fp32"})
    assert wide.master_weights is MasterWeights.STORED


@pytest.mark.parametrize(
    ("words", "fused"),
    [
        ({"options": "torch.compile, SDPA"}, True),
        ({"options": "fused norm/SwiGLU/cross entropy; no compile"}, True),
        ({"options": "no compile"}, False),
        ({"options": "torch.compile", "framework": "torchtitan", "year": "2024"}, False),  # its loss is not
    ],
)
def test_a_loss_in_one_kernel_is_read(words, fused):
    assert layout(**PLAIN | words).fused_loss is fused


def test_what_is_on_the_host_is_read():
    sharded = PLAIN | {"framework": "PyTorch FSDP", "shard": "zero3", "mbs": "1"}
    found = layout(**sharded, options="CPUOffload(offload_params=True), optimizer step on CPU")
    assert found.offload_weights
    assert found.offload_gradients
    assert found.offload_optimizer
    detail = "optimizer offloaded to CPU (HF test ds_config_zero2)"
    assert layout(**PLAIN, recompute_detail=detail).offload_optimizer
    assert not layout(**PLAIN, options="optimizer offloaded to CPU between phases").offload_optimizer
    moved = layout(recompute_detail="; 52 % of activations offloaded to CPU", recompute="none")
    assert moved.offload_layers == round(0.52 * 32 / moved.pp)


def test_deepspeed_shards_states_of_bf16_at_stage_0():
    """BF16_Optimizer of DeepSpeed's pull request 1801."""
    ddp = {"framework": "Megatron-DeepSpeed", "shard": "ddp"}
    assert layout(**ddp).shard is Shard.ZERO1
    assert layout(**ddp, precision="fp16").shard is Shard.DDP


@pytest.mark.parametrize(
    ("policy", "recompute"),
    [
        ("minimal_flash", Recompute.OPERATIONS),
        ("save_qkv_proj", Recompute.FULL),
        ("save_dot_except_mlp", Recompute.FULL),
        ("minimal_offloaded", Recompute.FULL),
    ],
)
def test_policies_of_maxtext(policy, recompute):
    found = layout(framework="MaxText", recompute="selective", recompute_detail=f"{policy} remat policy")
    assert found.recompute is recompute


@pytest.mark.parametrize(("model", "pixels"), [("ViT-small/32 384", 384), ("ViT-base/16 224", 224)])
def test_an_image_encoder_has_no_words(model, pixels):
    tokens = (pixels // int(model.split("/")[1][:2])) ** 2 + 1
    shape = {"family": "encoder", "vocab": "", "layers": "12", "hidden": "384", "heads": "6", "kv_heads": ""}
    found = case_of(
        row(**PLAIN | shape, model=model, seq_len=str(tokens), ffn_hidden="1536", head_dim="")
    ).model
    assert found.patches is not None
    assert (found.patches.image, found.classes) == (pixels, 1000)


def test_recomputation_that_is_assumed_is_open_where_nothing_else_fits():
    """7B in 40 GB with 16 sequences of 2,048 tokens a GPU."""
    large = {"framework": "PyTorch FSDP", "shard": "fsdp", "gpu": "A100-SXM", "gpu_mem_gb": "40", "mbs": "16"}
    stated, assumed = (
        case_of(row(**PLAIN | large, seq_len="2048", gbs="128", gpus="8", flags=flags)).layouts
        for flags in ("", "rounded; recomputation not printed")
    )
    assert {one.recompute for one in stated} == {Recompute.NONE}
    assert Recompute.FULL in {one.recompute for one in assumed}
