"""Megatron-LM's arguments, as they stand in scripts."""

from pathlib import Path

import pytest

from syncwall.describe import Model, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings import Settings, SettingsContext, read_settings, written
from syncwall.describe.settings.megatron import STAGES
from syncwall.describe.switches import Optimizer
from syncwall.problems import InputError
from tests.describe.samples import model

DATA = Path(__file__).parents[2] / "data" / "settings"


def script(directory: Path, text: str) -> Settings:
    path = directory / "train.sh"
    path.write_text(text)
    return read_settings(path)


def test_a_script_with_variables_quotes_and_comments():
    settings = read_settings(DATA / "megatron_moe.sh")
    assert settings.layout == {
        "tp": 2,
        "sp": True,
        "pp": 4,
        "cp": 2,
        "cp_kind": ContextKind.ULYSSES,
        "ep": 8,
        "etp": 2,  # as tp where nobody says
        "virtual_stages": 2,
        "schedule": Schedule.INTERLEAVED,
        "balanced_stages": False,
        "micro_batch": 1,
        "global_batch": 512,
        "precision": Dtype.FP8,
        "gradient_dtype": Dtype.FP32,
        "dispatcher": Dispatcher.DEEPEP,
        "shard": Shard.ZERO1,
        "recompute": Recompute.FULL,
        "recompute_layers": 6,  # 3 of each virtual stage
        "overlap_gradients": False,
        "overlap_parameters": False,
        "overlap_tp": False,
        "overlap_ep": False,
    }
    assert settings.run == {"nodes": 16, "gpus_per_node": 8}
    assert [note.message for note in settings.notes] == [
        "--seq-length $SEQ: the variable is not set above; left open"
    ]
    assert settings.layout_on(SettingsContext(gpus=128)).shard_degree == 8  # dp 8 x cp 2 in 2 copies


def test_a_part_of_a_command_leaves_switches_open(tmp_path):
    settings = script(tmp_path, "--tensor-model-parallel-size 8 --sequence-parallel")
    assert settings.layout == {"tp": 8, "sp": True}


def test_a_whole_command_without_a_switch_does_not_use_it(tmp_path):
    layout = script(tmp_path, "--micro-batch-size 2 --bf16").layout
    assert layout["overlap_gradients"] is False
    assert (layout["shard"], layout["recompute"]) == (Shard.DDP, Recompute.NONE)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("--use-distributed-optimizer", "shard", Shard.ZERO1),
        ("--use-torch-fsdp2", "shard", Shard.FSDP),
        ("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "shard", Shard.ZERO2),
        ("--use-megatron-fsdp", "shard", Shard.FSDP),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "shard", Shard.ZERO2),
        ("--fp16", "gradient_dtype", Dtype.FP16),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", "gradient_dtype", Dtype.FP32),
        ("--bf16", "gradient_dtype", Dtype.FP32),
        ("--bf16 --grad-reduce-in-bf16", "gradient_dtype", Dtype.BF16),
        ("--bf16 --fp8-format e4m3 --fp8-recipe mxfp8", "precision", Dtype.MXFP8),
        ("--bf16 --fp8-format hybrid --fp8-param-gather", "gather_dtype", Dtype.FP8),
        ("--bf16 --fp4-format e2m1", "precision", Dtype.NVFP4),
        ("--recompute-activations", "recompute", Recompute.SELECTIVE),
        ("--recompute-granularity full --recompute-method uniform", "recompute", Recompute.FULL),
        (
            "--recompute-activations --recompute-modules layernorm moe_act",
            "recompute_modules",
            ("layernorm", "moe_act"),
        ),
        ("--use-precision-aware-optimizer --exp-avg-dtype bf16", "moment_dtype", Dtype.BF16),
        ("--optimizer muon", "optimizer", Optimizer.MUON),
        ("--optimizer-cpu-offload", "offload_optimizer", True),
        ("--cpu-offloading-num-layers 4", "offload_layers", 4),
        ("--use-tp-pp-dp-mapping", "order", ("tp", "cp", "ep", "pp", "dp")),
        ("--account-for-loss-in-pipeline-split", "balanced_stages", True),
        ("--decoder-first-pipeline-num-layers 7", "first_stage_layers", 7),
        ("--decoder-last-pipeline-num-layers 5", "last_stage_layers", 5),
        ("--no-overlap-p2p-communication", "overlap_pp", False),
    ],
)
def test_arguments(tmp_path, text, field, expected):
    settings = script(tmp_path, f"--tensor-model-parallel-size 8 {text}\n")
    assert settings.layout[field] == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ARGS=(\n", "\n)\ntorchrun pretrain_gpt.py ${ARGS[@]}\n"),
        ('ARGS="\n', '\n"\ntorchrun pretrain_gpt.py $ARGS\n'),
        ("torchrun pretrain_gpt.py ", "\n\necho done\n"),
        ("ARGS=(", ")\ntorchrun pretrain_gpt.py ${ARGS[@]}\n"),
    ],
    ids=["array", "quotes", "command", "one line"],
)
def test_the_last_argument_ends_with_what_holds_it(tmp_path, before, after):
    text = "--tensor-model-parallel-size 8 --recompute-activations --recompute-modules layernorm \\\n  mlp"
    settings = script(tmp_path, f"{before}{text}{after}")
    assert settings.layout["recompute_modules"] == ("layernorm", "mlp")
    assert settings.notes == ()


def test_sequence_parallelism_is_off_without_tensor_parallelism(tmp_path):
    text = "--tensor-model-parallel-size 1 --sequence-parallel"
    assert script(tmp_path, text).layout["sp"] is False
    assert script(tmp_path, "--micro-batch-size 1 --sequence-parallel").layout["sp"] is False


def test_a_number_format_that_is_said_elsewhere_stays_open(tmp_path):
    layout = script(tmp_path, "--micro-batch-size 1").layout
    assert not {"precision", "gradient_dtype"} & set(layout)


def test_the_last_of_two_counts(tmp_path):
    text = "--tensor-model-parallel-size 8\n--tensor-model-parallel-size 4\n"
    assert script(tmp_path, text).layout["tp"] == 4


def test_layers_of_a_virtual_stage(tmp_path):
    text = (
        "--pipeline-model-parallel-size 8\n--num-layers-per-virtual-pipeline-stage 3\n"
        "--recompute-granularity full --recompute-method block --recompute-num-layers 1\n"
    )
    with_layers = script(tmp_path, text + "--num-layers 96").layout
    assert (with_layers["virtual_stages"], with_layers["recompute_layers"]) == (4, 4)
    waiting = script(tmp_path, text)
    assert "virtual_stages" not in waiting.layout
    layout = waiting.layout_on(SettingsContext(layers=96))
    assert (layout.virtual_stages, layout.recompute_layers) == (4, 4)
    with pytest.raises(InputError, match=r"train.sh:2:1  100 layers are not a multiple of pp 8 x 3"):
        script(tmp_path, text + "--num-layers 100")


def test_a_wrong_number_names_the_line(tmp_path):
    with pytest.raises(InputError, match=r'train.sh:2:3 .* must be a whole number, not "two"'):
        script(tmp_path, "ARGS=(\n  --tensor-model-parallel-size two\n)\n")


@pytest.mark.parametrize("equals", [" ", "="])
@pytest.mark.parametrize(
    ("stages", "virtual"), [("Ettt|tttt|tttt|tttL", 1), ("Et*3|(t*2|)*6tL", 2), ("E||t|tL", 1)]
)
def test_stages_that_are_listed(tmp_path, stages, virtual, equals):
    text = f"--micro-batch-size 1 --pipeline-model-parallel-size 4 {STAGES}{equals}'{stages}'"
    layout = script(tmp_path, text).layout
    assert (layout["virtual_stages"], layout["balanced_stages"]) == (virtual, True)


def test_stages_that_do_not_fit_the_ranks(tmp_path):
    text = f'--pipeline-model-parallel-size 4\n{STAGES} "E|(tt|)*12,L"'
    with pytest.raises(InputError, match=r"train.sh:2:1  14 stages are not a multiple of pp 4"):
        script(tmp_path, text)


@pytest.mark.parametrize(
    ("layers", "argument"),
    [(30, "--account-for-loss-in-pipeline-split"), (32, f"{STAGES} 'E{'t' * 8}|{'t' * 9}|")],
)
def test_balanced_stages_are_written_for_any_number_of_layers(tmp_path, layers, argument):
    layout = Layout(dp=2, pp=4, balanced_stages=True, recompute="none")
    said = written(layout, "megatron", model=model(layers=layers))
    assert not said.unsaid
    assert argument in said.text
    assert script(tmp_path, said.text).layout["balanced_stages"] is True


def test_a_pattern_of_layers_is_a_hybrid(tmp_path):
    """The arguments with which Nemotron 3 Super is trained."""
    base = lookup.model("nemotron-3-super")
    letters = str(base.pattern).replace(" ", "")
    text = (
        f"--hybrid-layer-pattern {letters}/*E/*E --hidden-size 4096 --num-attention-heads 32 "
        "--num-query-groups 2 --kv-channels 128 --mamba-num-heads 128 --ffn-hidden-size 2688 "
        "--num-experts 512 --moe-router-topk 22 --moe-latent-size 1024 "
        "--moe-shared-expert-intermediate-size 5376 --squared-relu --disable-bias-linear "
        "--normalization RMSNorm --position-embedding-type none --vocab-size 131072 "
        "--untie-embeddings-and-output-weights --mtp-num-layers 2 --tensor-model-parallel-size 2"
    )
    found = Model.model_validate(script(tmp_path, text).run["model"])
    assert found.pattern == base.pattern
    assert found.parameter_count == base.parameter_count


@pytest.mark.parametrize(
    ("ends", "first", "last"),
    [("", 1, 1), ("--num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 9", 0, 9)],
)
def test_layers_in_bf16(tmp_path, ends, first, last):
    path = tmp_path / "train.sh"
    path.write_text(f"--bf16 --fp4-format e2m1 --first-last-layers-bf16 {ends} --micro-batch-size 1")
    found = read_settings(path)
    layout = Layout.model_validate(found.layout).resolved(8)
    assert (layout.first_layers_bf16, layout.last_layers_bf16) == (first, last)
    told = written(layout, "megatron").text
    assert f"--num-layers-at-start-in-bf16 {first}" in told
    assert f"--num-layers-at-end-in-bf16 {last}" in told
