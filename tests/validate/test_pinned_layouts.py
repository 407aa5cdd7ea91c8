"""Made-up runs of every feature of a layout, and single collectives, to nine digits.

Published runs use few of the settings that can be described: a formula of the others could change
unnoticed. If a change is meant: `python -m tests.validate.test_pinned_layouts` writes the file
anew; its diff is part of the change.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.describe import Run, lookup
from syncwall.problems import InputError
from syncwall.work.operations import Collective, CollectiveKind, Group, Transfer
from tests.validate.test_pinned import digits

FILE = Path(__file__).parents[1] / "data" / "pinned_layouts.json"
RUNS = 90
MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "gpt3-13b",
    "mixtral-8x7b",
    "deepseek-v3",
    "qwen3-30b-a3b",
)
CLUSTERS = (
    "dgx-h100",
    "aws-p4d",
    "gb200-nvl72",
    "mi300x-8",
    "frontier",
    "dgx-h200",
    "dgx-b200",
    "jean-zay-v100",
    "gcp-a3-mega",
    "meta-24k-h100",
)
CHOICES: dict[str, tuple[Any, ...]] = {
    "tp": (1, 1, 2, 4, 8),
    "pp": (1, 1, 2, 4),
    "cp": (1, 1, 1, 2, 4),
    "ep": (1, 1, 4, 8),
    "shard": ("ddp", "zero1", "zero2", "fsdp", "fsdp"),
    "virtual_stages": (None, None, 2, 4),
    "schedule": (None, None, "1f1b", "gpipe", "zero-bubble", "dualpipe"),
    "sp": (False, True),
    "micro_batch": (1, 2, 4),
    "global_batch": (256, 512, 1024),
    "precision": (None, None, "fp8"),
    "recompute": (None, "none", "full", "selective", "operations"),
    "outer_every": (None, None, 50),
    "recompute_layers": (None, None, 3),
    "recompute_stops_early": (None, True, False),
    "offload_layers": (0, 0, 0, 4),
    "offload_optimizer": (False, False, True),
    "frozen_weights": (False, False, True),
    "fused_loss": (None, True),
    "loss_chunks": (1, 4),
    "overlap_gradients": (None, True, False),
    "overlap_parameters": (None, True, False),
    "overlap_tp": (None, True),
    "overlap_pp": (None, False),
    "overlap_ep": (None, True),
    "cp_kind": ("ring", "ring", "ulysses"),
    "shard_degree": (None, None, 8),
    "dropout": (None, True),
    "expert_imbalance": (1.0, 1.2),
    "fp8_dispatch": (False, True),
    "etp": (1, 1, 2),
    "kept_attention_scores": (None, True),
    "balanced_stages": (None, False),
}
SOFTWARE: dict[str, tuple[Any, ...]] = {
    "framework": (None, "megatron-core", "torchtitan", "deepspeed", "nanotron"),
    "kernels": (None, "eager"),
    "attention": (None, "flash-2", "unfused"),
    "expert_kernels": (None, "loop"),
    "graphs": (None, "router", "full"),
    "date": (None, "2023-01", "2025-06"),
}
GROUPS = ((2, 1), (8, 1), (16, 1), (16, 8), (64, 1), (72, 1), (256, 8), (32, 32))
KINDS: tuple[CollectiveKind, ...] = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
)


def answer(run: dict[str, Any]) -> dict[str, Any]:
    found = predict(Run.model_validate(run))
    return {
        "step_s": found.step_s,
        "memory_bytes": found.memory_bytes,
        "mfu": found.mfu,
        "hfu": found.hfu,
        "interval_s": list(found.step_interval_s),
        "ledger_s": dict(found.ledger),
        "memory": found.memory.by_cause(),
    }


def collectives(name: str) -> dict[str, float]:
    """Seconds of single calls on a cluster, inside of a step."""
    cluster = lookup.cluster(name).using(32, lookup.cluster(name).gpus_per_node)
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    found = {}
    for ranks, stride in GROUPS:
        if ranks * stride <= cluster.gpus:
            group = Group("dp", ranks, stride)
            for kind in KINDS:
                for size in (3e3, 5e5, 7e7):
                    seconds = float(network.collective_seconds(Collective(kind, size, group)))
                    found[f"{kind} {size:g} {ranks}x{stride}"] = seconds
            pair = Transfer(1e7, Group("pp", 2, stride))
            found[f"message {stride}"] = float(network.transfer_seconds(pair))
    return found


SAVED = json.loads(FILE.read_text()) if FILE.exists() else {"runs": [], "collectives": {}}


@pytest.mark.parametrize("number", range(len(SAVED["runs"])))
def test_a_run_is_predicted_as_accepted(number):
    run, accepted = SAVED["runs"][number]
    found = answer(run)
    for part in ("ledger_s", "memory"):
        assert found.pop(part) == pytest.approx(accepted[part], rel=1e-9, abs=1e-12), run
    assert found.pop("interval_s") == pytest.approx(accepted["interval_s"], rel=1e-9)
    assert found == pytest.approx({key: accepted[key] for key in found}, rel=1e-9), run


@pytest.mark.parametrize("cluster", SAVED["collectives"])
def test_collectives_take_what_was_accepted(cluster):
    assert collectives(cluster) == pytest.approx(SAVED["collectives"][cluster], rel=1e-9)


def drawn(chance: random.Random) -> dict[str, Any]:
    """A run with some settings of a layout and its software, which may be impossible."""

    def some(choices: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        taken = {name: chance.choice(values) for name, values in choices.items()}
        return {name: value for name, value in taken.items() if value is not None}

    layout = {name: v for name, v in some(CHOICES).items() if chance.random() < 0.6}
    software = {name: v for name, v in some(SOFTWARE).items() if chance.random() < 0.5}
    where = {"cluster": chance.choice(CLUSTERS), "nodes": chance.choice((4, 8, 16, 32))}
    return {"model": chance.choice(MODELS), **where, "layout": layout, "software": software}


def write() -> None:
    """Draw runs until enough of them are possible, and keep what is said of each."""
    chance = random.Random(7)
    runs: list[list[dict[str, Any]]] = []
    while len(runs) < RUNS:
        run = drawn(chance)
        try:
            runs.append([run, digits(answer(run))])
        except (ValidationError, InputError, ValueError):
            continue
    calls = {name: digits(collectives(name)) for name in CLUSTERS}
    FILE.write_text(json.dumps({"runs": runs, "collectives": calls}, indent=None) + "\n")


if __name__ == "__main__":
    write()
