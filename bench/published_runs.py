"""Predicted against published step times: `python bench/published_runs.py DIR [FILE...]`.

DIR holds tables of runs, one CSV a source, in the schema of the validation corpus. Nothing is
fitted; this is a first reading, not a validation.
"""

import csv
import sys
from pathlib import Path
from statistics import mean, median

import syncwall as sw
from syncwall.describe import Layout, Software

CLUSTERS = {"A100": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200"}
SHARDS = {"zero3": "fsdp", "": "ddp"} | {name: name for name in ("ddp", "zero1", "zero2", "fsdp")}


def run_of(row: dict[str, str]) -> sw.Run:
    """The run that a row describes; what the source leaves open is stated here."""

    def whole(key: str, default: int = 1) -> int:
        return int(float(row[key])) if row[key] else default

    heads = whole("heads")
    model = sw.Model.model_validate(
        {
            "name": row["model"], "layers": whole("layers"), "hidden": whole("hidden"),
            "vocab": whole("vocab"),
            "attention": {"heads": heads, "kv_heads": whole("kv_heads", heads)},
            "mlp": {"hidden": whole("ffn_hidden"), "gated": row["gated_mlp"].lower() == "true"},
        }
    )  # fmt: skip
    gpus = whole("gpus")
    cluster = sw.cluster(CLUSTERS[row["gpu"][:4]], max(1, gpus // 8), min(gpus, 8))
    chunks = 2 if "Interleaved" in row["options"] else whole("vpp")
    per_operation = "SAC" in row["recompute_detail"]
    layout = {
        "tp": whole("tp"), "sp": row["sp"].lower() == "true", "pp": whole("pp"), "cp": whole("cp"),
        "virtual_stages": chunks, "schedule": "interleaved" if chunks > 1 else "1f1b",
        "micro_batch": whole("mbs"), "global_batch": whole("gbs"), "shard": SHARDS[row["shard"]],
        "precision": row["precision"] or "bf16",
        "gradient_dtype": "fp16" if row["precision"] == "fp16" else "fp32",
        "recompute": "operations" if per_operation else row["recompute"] or "none",
        "overlap_tp": "async" in row["options"].lower(),
    }  # fmt: skip
    unfused = int(row["year"] or 0) <= 2022
    software = Software(
        attention="unfused" if unfused else "flash-2",
        kernels="eager" if "eager" in row["options"] else "fused",
    )
    return sw.Run(
        model=model, cluster=cluster, seq=whole("seq_len"), software=software,
        layout=Layout.model_validate(layout),
    )  # fmt: skip


def main() -> None:
    directory, files = Path(sys.argv[1]), sys.argv[2:] or ["torchtitan.csv", "korthikanti_2022.csv"]
    for name in files:
        ratios = []
        with (directory / name).open() as stream:
            for row in csv.DictReader(stream):
                if row["step_time_s"]:
                    ratio = sw.predict(run_of(row)).step_s / float(row["step_time_s"])
                    ratios.append(ratio)
                    print(f"{row['id']:36} {float(row['step_time_s']):9.2f} s   x {ratio:.2f}")
        error = mean(abs(ratio - 1) for ratio in ratios)
        print(f"{name}: {len(ratios)} rows, MAPE {error:.1%}, median ratio {median(ratios):.2f}\n")


if __name__ == "__main__":
    main()
