"""Recorded programs beside descriptions: `python bench/capture_agreement.py [NAME ...] [--check]`.

Records examples/capture/llama_fsdp2.py in several layouts of Llama 8B, predicts each on DGX H100,
compiled, and predicts the same run from its description. Prints both ledgers line by line. With
`--check` the exit code is 1 if a step differs by more than `MOST`. What FSDP copies is in no
description: it is a line of its own.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.answer.program import ProgramPrediction
from syncwall.capture.script import Script, record_script
from syncwall.cause import Cause
from syncwall.describe import Software, lookup

SCRIPT = Path(__file__).parents[1] / "examples" / "capture" / "llama_fsdp2.py"
MOST: Final = 0.05
MULTIPLIED: Final = (Cause.GEMM, Cause.OUTPUT_LAYER)
"""A description knows which multiplication is the output layer's, with its loss."""
CLUSTER: Final = "dgx-h100"


@dataclass(frozen=True)
class Case:
    """One layout, as arguments of the script and as a description."""

    arguments: str
    layout: dict[str, Any] = field(default_factory=dict)
    gpus: int = 1024
    seq: int = 8192

    def description(self) -> sw.Run:
        """The run that the script makes."""
        usual = {"shard": "fsdp", "micro_batch": 1, "global_batch": self.gpus, "recompute": "none"}
        return sw.Run.model_validate(
            {"model": "llama-3.1-8b", "cluster": CLUSTER, "nodes": self.gpus // 8, "seq": self.seq,
             "layout": usual | self.layout, "software": {"framework": "torchtitan"}}
        )  # fmt: skip


CASES: Final = {
    "8 GPUs": Case("", gpus=8),
    "1,024 GPUs": Case(""),
    "16,384 GPUs": Case("", gpus=16384),
    "recomputed": Case("--recompute full", {"recompute": "full"}),
    "8 GPUs, batch 2, recomputed": Case(
        "--recompute full --batch 2", {"recompute": "full", "micro_batch": 2, "global_batch": 16}, 8
    ),
    "HSDP 4 x 256": Case("--replicas 4", {"shard_degree": 256}),
    "TP 8 x FSDP 128": Case("--tp 8", {"tp": 8, "sp": True, "global_batch": 128}),
    "TP 2 x FSDP 512": Case("--tp 2", {"tp": 2, "sp": True, "global_batch": 512}),
    "two micro batches": Case("--accumulate 2", {"global_batch": 2048}),
    "short sequences": Case("--length 4096 --batch 2",
                            {"micro_batch": 2, "global_batch": 2048}, seq=4096),
}  # fmt: skip


def compared(case: Case) -> tuple[Prediction, ProgramPrediction]:
    """The description and the program, each predicted."""
    script = Script(str(SCRIPT), tuple(case.arguments.split()))
    program = record_script(script, world_size=case.gpus)
    software = Software(framework="torchtitan")
    cluster = lookup.cluster(CLUSTER)
    recorded = sw.predict(program, cluster=cluster, software=software, compiled=True)
    return sw.predict(case.description()), recorded


def lines(described: Prediction, recorded: ProgramPrediction) -> list[tuple[str, float, float]]:
    """Seconds by cause of both; the output layer is one with multiplications."""
    causes = sorted({*described.ledger, *recorded.ledger} - {*MULTIPLIED}, key=lambda c: c.order)
    first = [sum(one.ledger[cause] for cause in MULTIPLIED) for one in (described, recorded)]
    rest = [(str(one), float(described.ledger[one]), float(recorded.ledger[one])) for one in causes]
    return [("GEMM and output layer", float(first[0]), float(first[1])), *rest]


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, with --check 1 if a step differs too much."""
    parser = argparse.ArgumentParser(description="Recorded programs beside descriptions.")
    parser.add_argument("names", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    worst = 0.0
    for name in chosen.names:
        described, recorded = compared(CASES[name])
        error = recorded.step_s / described.step_s - 1
        worst = max(worst, abs(error))
        step = f"{1e3 * described.step_s:.1f} ms, recorded {1e3 * recorded.step_s:.1f} ms"
        print(f"\n{name}: described {step}, {error:+.1%}", flush=True)
        for cause, one, other in lines(described, recorded):
            share = (other - one) / described.step_s
            print(f"  {cause:24}{1e3 * one:10.1f}{1e3 * other:10.1f}{share:+8.1%}")
    return 1 if chosen.check and worst > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
