"""Recorded programs beside descriptions of the same runs, and beside published times."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import syncwall as sw
from bench import ROOT, Dir, Names
from syncwall.answer.prediction import Prediction
from syncwall.capture.script import Script, record_script
from syncwall.cause import Cause
from syncwall.describe import Software, lookup
from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import ValidationCase, cases_of
from syncwall.validate.table import read_tables

SCRIPT: Final = ROOT / "examples" / "capture" / "llama_fsdp2.py"
TORCHTITAN: Final = ROOT / "tests" / "capture" / "torchtitan_script.py"
MOST, WORSE = 0.05, 0.02
MULTIPLIED: Final = (Cause.GEMM, Cause.OUTPUT_LAYER)
"""A description knows which multiplication is the output layer's, with its loss."""
CLUSTER: Final = "dgx-h100"


@dataclass(frozen=True)
class Case:
    arguments: str = ""
    layout: dict[str, Any] = field(default_factory=dict)
    gpus: int = 1024
    seq: int = 8192

    def compared(self) -> tuple[Prediction, Prediction]:
        usual = {"shard": "fsdp", "micro_batch": 1, "global_batch": self.gpus, "recompute": "none"}
        stated = {"model": "llama-3.1-8b", "cluster": CLUSTER, "nodes": self.gpus // 8}
        software = {"framework": "torchtitan"}
        stated |= {"seq": self.seq, "layout": usual | self.layout, "software": software}
        script = Script(str(SCRIPT), tuple(self.arguments.split()))
        program = record_script(script, world_size=self.gpus)
        how: dict[str, Any] = {"software": Software(framework="torchtitan"), "compiled": True}
        recorded = sw.predict(program, cluster=lookup.cluster(CLUSTER), **how)
        return sw.predict(sw.Run.model_validate(stated)), recorded


def _batches(micro: int, total: int) -> dict[str, int]:
    return {"micro_batch": micro, "global_batch": total}


_FULL = {"recompute": "full"}
CASES: Final = {
    "8 GPUs": Case(gpus=8),
    "1,024 GPUs": Case(),
    "16,384 GPUs": Case(gpus=16384),
    "recomputed": Case("--recompute full", _FULL),
    "8 GPUs, batch 2, recomputed": Case("--recompute full --batch 2", _FULL | _batches(2, 16), gpus=8),
    "HSDP 4 x 256": Case("--replicas 4", {"shard_degree": 256}),
    "TP 8 x FSDP 128": Case("--tp 8", {"tp": 8, "sp": True, "global_batch": 128}),
    "TP 2 x FSDP 512": Case("--tp 2", {"tp": 2, "sp": True, "global_batch": 512}),
    "two micro batches": Case("--accumulate 2", {"global_batch": 2048}),
    "short sequences": Case("--length 4096 --batch 2", _batches(2, 2048), seq=4096),
}


def agreement(names: Names = (), check: bool = False) -> int:
    """Recorded programs beside descriptions: both ledgers, line by line.

    Records examples/capture/llama_fsdp2.py in several layouts of Llama 8B (all, or those named),
    predicts each on DGX H100, compiled, and predicts the same run from its description. What FSDP
    copies is in no description: it is a line of its own. With --check the exit code is 1 if a step
    differs by more than 5%.
    """
    worst = 0.0
    for name in names or CASES:
        described, recorded = CASES[name].compared()
        error = recorded.step_s / described.step_s - 1
        worst = max(worst, abs(error))
        step = f"{1e3 * described.step_s:.1f} ms, recorded {1e3 * recorded.step_s:.1f} ms"
        print(f"\n{name}: described {step}, {error:+.1%}", flush=True)
        causes = {*described.ledger, *recorded.ledger} - {*MULTIPLIED}
        lines: list[tuple[str, tuple[Cause, ...]]] = [("GEMM and output layer", MULTIPLIED)]
        lines += [(str(one), (one,)) for one in sorted(causes, key=lambda c: c.order)]
        for line, some in lines:
            one, other = (sum(p.ledger[c] for c in some) for p in (described, recorded))
            share = (other - one) / described.step_s
            print(f"  {line:24}{1e3 * one:10.1f}{1e3 * other:10.1f}{share:+8.1%}")
    return int(check and worst > MOST)


def cases(runs: Path) -> Iterator[ValidationCase]:
    for case in cases_of(row for row in read_tables(runs) if row.source == "torchtitan"):
        row = case.row
        plain = row.text("precision") == "bf16" and "asyncTP" not in row.text("options")
        if plain and row.text("mbs") and row.text("pp") == row.text("cp") == "1":
            yield case


def recorded_s(case: ValidationCase) -> float:
    row = case.row
    columns = {"tp": "tp", "batch": "mbs", "length": "seq_len", "layers": "layers"}
    columns |= {"width": "hidden", "heads": "heads", "kv-heads": "kv_heads"}
    columns |= {"hidden": "ffn_hidden", "recompute": "recompute"}
    words = [word for flag, column in columns.items() for word in (f"--{flag}", row.text(column))]
    words += ["--vocabulary", str(case.model.vocab)]
    words += ["--compile"] if "torch.compile" in row.text("options") else []
    program = record_script(Script(str(TORCHTITAN), tuple(words)), world_size=row.whole("gpus"))
    return float(sw.predict(program, cluster=case.cluster, software=case.software).step_s)


def torchtitan(runs: Dir, names: Names = (), check: bool = False) -> int:
    """Runs that torchtitan published, as a script: recorded, described and measured.

    Each row of torchtitan in DIR in bf16, without its asynchronous tensor parallelism, is a call of
    tests/capture/torchtitan_script.py, recorded and priced on the machine of the row. With --check
    the exit code is 1 if a recorded step is further off than the described one by more than 2%.
    """
    worse, errors = 0.0, []
    for case in cases(runs):
        if names and case.row.id not in names:
            continue
        described = outcomes([case])[0].ratio - 1
        error = recorded_s(case) / case.measured_s - 1
        errors.append((abs(described), abs(error)))
        worse = max(worse, abs(error) - abs(described))
        both = f"described {described:+6.1%}, recorded {error:+6.1%}"
        print(f"{case.row.id:30} measured {case.measured_s:7.3f} s, {both}", flush=True)
    described, recorded = (statistics.mean(column) for column in zip(*errors, strict=True))
    print(f"mean error: described {described:.1%}, recorded {recorded:.1%}")
    return int(check and worse > WORSE)
