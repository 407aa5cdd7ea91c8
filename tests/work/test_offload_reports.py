"""Memory of runs with weights, gradients or optimizer on the host beside what people report.

`tests/data/offload/reports.csv` has settings and measured peaks, in GB a GPU, of runs with offload
and of the same without; `SOURCES` says where they were read. Nothing is fitted to them. Peaks that
count PyTorch's allocator are compared without the CUDA context. Empty peaks are runs that are only
said to fit; `OOM` did not.
"""

import csv
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.describe.software import Software, with_switches
from syncwall.work.memory import Memory, fits, step_memory

FILE = Path(__file__).parents[1] / "data" / "offload" / "reports.csv"
ROWS = list(csv.DictReader(FILE.read_text().splitlines()))
SOURCES = {
    "fsdp-qlora": "https://github.com/AnswerDotAI/fsdp_qlora/blob/main/benchmarks_03_2024.md;"
    " peaks are reserved memory, in GiB there. Rank 64 of train.py; targets without o_proj are"
    " assumed. Two A5000 with activations on the host, too, are described as RTX 3090.",
    "peft-fsdp": "https://github.com/huggingface/peft/blob/main/docs/source/accelerate/fsdp.md:"
    " 19.6 GB a GPU, without offload 35.6, for which 24 GB are too few; taken as all of it.",
    "philschmid": "https://github.com/philschmid/deep-learning-pytorch-huggingface/blob/main/"
    "training/fsdp-qlora-distributed-llama3.ipynb: 22 GB a GPU; without offload more than 40 GB a"
    " GPU are asked for. Rank of run_fsdp_qlora.py.",
    "peft-zero3": "https://github.com/huggingface/peft/blob/0032f32/README.md and its example"
    " peft_lora_clm_accelerate_ds_zero3_offload.py (batch, length, rank; fp32), which counts what"
    " PyTorch allocated.",
    "chenyaofo": "https://gist.github.com/chenyaofo/d4cd6a20ab4b95cb3a49491747e2139a,"
    " max_memory_allocated. The row with ZeRO++ does not say its partition: left out.",
    "torchao": "https://github.com/pytorch/ao/blob/main/torchao/optim/README.md, optimizer CPU"
    " offload. The image of 224 pixels is that of its script; an RTX 4070 Ti SUPER is described as"
    " T4, which has the same 16 GB.",
    "accelerate-fsdp": "https://huggingface.co/blog/pytorch-fsdp, tables 1 and 2: largest batches."
    " Its block size of 12 is taken for 128; Titan RTX are described as RTX 3090, with the same"
    " 24 GB.",
    "zero-offload": "https://www.deepspeed.ai/tutorials/zero-offload (10B) and the abstract of Ren"
    " 2021, https://arxiv.org/abs/2101.06840: 13B on one V100, 1.4B with PyTorch alone; described"
    " as GPT-3 of these sizes with micro batch 1, which it does not say.",
    "zero-infinity": "https://github.com/deepspeedai/DeepSpeedExamples/issues/192: 13,395 MiB of"
    " nvidia-smi, states on NVMe; the sequence of 1,024 tokens is that of the example.",
    "t5": "https://huggingface.co/blog/zero-deepspeed-fairscale (3B),"
    " https://github.com/huggingface/transformers/issues/9996 (11B on 40 GB) and"
    " https://github.com/deepspeedai/DeepSpeed/issues/655 (11B on 24 GB). 128 tokens are assumed.",
}
"""Where the rows were read, and what of them is assumed."""
NOT_AS_REPORTED = {
    ("philschmid", "llama-3-70b", ""),  # 22.9 GB of 24.5 are predicted: fragments are not counted
    ("zero-offload", "gpt-10b", "gradients optimizer"),  # 34.4 of 32.6: within the uncertainty
    ("t5", "t5-3b", "gradients optimizer"),  # 27.8 of 24.5: its sentences are shorter than 128
}
"""Runs whose verdict is another than reported: source, model, and what is on the host."""
WITHIN = {
    "fsdp-qlora": 0.38,
    "peft-fsdp": 0.43,
    "philschmid": 0.23,
    "peft-zero3": 0.48,
    "chenyaofo": 0.84,
    "torchao": 0.42,
    "zero-infinity": 0.06,
}
"""Largest error of a source. That of chenyaofo, weights on the host, is printed with twice the
micro batch of the row before and less memory: with the same micro batch it would be 7%."""


def t5(heads: int, width: int) -> dict[str, Any]:
    """T5 of the first release, with 128 tokens in and out."""
    part = {
        "layers": 24,
        "hidden": 1024,
        "mlp": {"hidden": width, "gated": False},
        "relative_positions": 32,
        "train_seq": 128,
    }
    attention = {"heads": heads, "head_dim": 128}
    return {
        **part,
        "vocab": 32128,
        "norm": {"per_layer": 3},
        "tied_embeddings": True,
        "attention": {**attention, "cross": True},
        "encoder": {**part, "attention": {**attention, "causal": False}},
    }


MODELS: dict[str, dict[str, Any]] = {
    "yi-34b": {
        "layers": 60,
        "hidden": 7168,
        "vocab": 64000,
        "train_seq": 4096,
        "attention": {"heads": 56, "kv_heads": 8},
        "mlp": {"hidden": 20480},
    },
    "gpt-10b": {
        "layers": 50,
        "hidden": 4096,
        "vocab": 50304,
        "train_seq": 1024,
        "attention": {"heads": 32},
        "mlp": {"hidden": 16384, "gated": False},
        "tied_embeddings": True,
        "learned_positions": 1024,
    },
    "vit-giant": {
        "layers": 40,
        "hidden": 1536,
        "patches": {"image": 224, "size": 14, "extra_tokens": 1},
        "attention": {"heads": 24, "causal": False, "qkv_bias": True, "output_bias": True},
        "mlp": {"hidden": 4096, "bias": True},
        "classes": 45,
        "learned_positions": 257,
    },
    "t5-3b": t5(32, 16384),
    "t5-11b": t5(128, 65536),
}


def described(name: str) -> Model:
    if name not in MODELS:
        return lookup.model(name)
    return Model.model_validate({"name": name, **MODELS[name]})


def predicted(row: dict[str, str]) -> Memory:
    model = described(row["model"])
    keys = ("precision", "shard", "recompute", "master_weights")
    said: dict[str, Any] = {key: row[key] for key in keys}
    said["micro_batch"] = int(row["micro_batch"])
    if row["rank"]:
        said["lora"] = {"rank": int(row["rank"]), "targets": row["targets"].split()}
        said["lora"] |= {"weights": row["weights"]} if row["weights"] else {}
    for part in row["host"].split():
        on_host = {f"offload_{part}": True}
        said |= {"offload_layers": model.layers} if part == "activations" else on_host
    family = lookup.framework(row["framework"])
    software = Software.model_validate({"kernels": row["kernels"]})
    layout = with_switches(Layout.model_validate(said), family, row["date"], software)
    return step_memory(model, layout.resolved(int(row["gpus"])), int(row["seq"])).as_floats()


def error(row: dict[str, str]) -> float:
    """Predicted over measured peak, less one."""
    found = predicted(row)
    outside = found.cuda_and_nccl if row["counts"] == "allocator" else 0.0
    return float(found.total - outside) / 1e9 / float(row["peak_gb"]) - 1


MEASURED = [row for row in ROWS if row["counts"]]
ON_THE_HOST = [row for row in MEASURED if row["host"]]


def name(row: dict[str, str]) -> str:
    return f"{row['source']}-{row['model']}-{row['micro_batch']}-{row['host'].replace(' ', '+')}"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_ran_fits_and_what_did_not_does_not(row):
    reported = row["peak_gb"] != "OOM"
    key = (row["source"], row["model"], row["host"])
    wrong = key in NOT_AS_REPORTED
    device = lookup.device(row["device"])
    assert fits(predicted(row).total, device) == (reported != wrong)


def test_most_verdicts_are_as_reported():
    assert len(ROWS) == 52
    assert sum(row["peak_gb"] == "OOM" for row in ROWS) == 10
    assert len(NOT_AS_REPORTED) == 3


def test_every_report_has_its_source():
    assert {row["source"] for row in ROWS} == set(SOURCES)
    assert {row["source"] for row in MEASURED} == set(WITHIN)


@pytest.mark.parametrize("source", WITHIN)
def test_peaks_are_as_far_off_as_we_say(source):
    errors = [abs(error(row)) for row in MEASURED if row["source"] == source]
    assert 0.75 * WITHIN[source] < max(errors) < WITHIN[source]


def test_half_of_the_peaks_are_within_a_sixth():
    """Those of fsdp-qlora are reserved memory, with fragments that are not counted."""
    assert (len(MEASURED), len(ON_THE_HOST)) == (30, 18)
    assert 0.13 < median(abs(error(row)) for row in MEASURED) < 0.18
    assert 0.14 < median(abs(error(row)) for row in ON_THE_HOST) < 0.2
