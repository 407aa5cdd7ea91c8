"""Screens of every verb: commands with their views, as examples for golden files and schemas.

`python -m tests.show.screens` writes the golden files of tests/data/screens again.
"""

from functools import cache
from pathlib import Path
from unittest.mock import patch

from syncwall.cli import main
from syncwall.show.blocks import Figure, View
from syncwall.show.write.terminal import rendered

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "screens"
WIDTH = 80
"""Columns of the golden files; other widths are held to laws in test_screens and test_terminal."""
WIDTHS = (60, 80, 120, 200)
_RUN = "--model llama-3.1-70b --cluster dgx-h100 --gpus 256 --tp 8 --global-batch 512"
_SMALL = "--model llama-3.1-8b --cluster dgx-h100 --nodes 4 --seq 4096 --global-batch 64"
CLUSTERS = (
    "compare --model llama-3.1-70b --cluster dgx-b200 --gpus 576 --global-batch 1152 --tokens 10T "
    "--against cluster=gb200-nvl72,tp=4,job.price=$8/GPU-hour"
)
PICTURE = ROOT / "docs" / "images" / "compare-clusters.svg"
"""What `CLUSTERS` draws, for docs/how-to/compare-clusters.md."""
COMMANDS = {
    "predict": f"predict {_RUN}",
    "predict-assumptions": f"predict {_RUN} --explain-assumptions",
    "predict-does-not-fit": "predict --model llama-3.1-405b --cluster dgx-h100 --nodes 2 --tp 8",
    "predict-experts": "predict --model deepseek-v3 --cluster dgx-h100 --nodes 64 --ep 64 --pp 8",
    "predict-work": "predict --work examples/capture/hybrid.work.json.gz --cluster dgx-h100",
    "predict-rl": "predict examples/rl/grpo-8b.yaml",
    "predict-rl-apart": 'predict examples/rl/grpo-8b.yaml --rl {"generator_gpus":8,"one_step_off":true}',
    "predict-islands": "predict examples/islands/intellect-1.yaml",
    "predict-measured": f"predict {_RUN} --measured 500tok/s/gpu",
    "predict-job": f"predict {_RUN} --tokens 1T",
    "compare": f"compare {_SMALL} --shard fsdp --against cluster=dgx-b200 tp=2",
    "compare-jobs": CLUSTERS,
    "compare-gate": "compare examples/capture/hybrid.work.json.gz examples/capture/hybrid.work.json.gz "
    "--cluster dgx-h100 --fail-above step=2%",
    "plan-layouts": f"plan layouts {_SMALL}",
    "plan-layouts-yours": "plan layouts examples/llama-70b-on-dgx-h100.yaml --top 3",
    "plan-wall": f"plan wall {_SMALL} --tp 2 --most 4096",
    "plan-wall-work": "plan wall --work examples/capture/hybrid.work.json.gz --cluster dgx-h100",
    "plan-network-work": "plan network --work examples/capture/hybrid.work.json.gz "
    "--cluster dgx-h100 --gpus 256",
    "plan-network": f"plan network {_SMALL} --tp 2 --gpus 32,256,2048",
    "plan-fabric": f"plan fabric {_SMALL} --prices.switch $30k --prices.optic $900",
    "plan-fabric-alone": "plan fabric --gpus 16384 --oversubscription 2 --growth 20%",
    "plan-fabric-degraded": f"plan fabric {_SMALL} --degraded nic:1-1=100Gb/s",
    "plan-placement": "plan placement examples/placement/two-jobs.yaml --fabric rail-optimised,8:1",
    "show-clusters": "show clusters",
    "show-devices": "show devices",
    "show-links": "show links",
    "show-models": "show models",
    "show-frameworks": "show frameworks",
    "show-failures": "show failures",
    "show-switches": "show switches",
    "show-model": "show model deepseek-v3",
    "show-cluster": "show cluster dgx-h100",
    "show-run": "show run examples/four-gpus-two-nodes.yaml",
    "show-terms": "show terms",
    "show-term": "show term exposed",
    "explain": "explain examples/explain",
    "explain-against": "explain examples/explain/traces --against examples/explain/traces",
    "explain-benchmark": "explain examples/benchmarks/all_reduce_slow.txt --cluster dgx-h100",
    "validate": "validate examples/runs.csv",
    "report-lab": "report examples/findings/four-workers.json",
    "report-run": "report examples/four-gpus-two-nodes.yaml",
}


@cache
def view(name: str) -> View:
    """What a command shows."""
    shown: list[View] = []
    with patch("syncwall.show.write.terminal.print_view", shown.append):
        words = COMMANDS[name].split()
        main([str(ROOT / word) if word.startswith("examples/") else word for word in words])
    (found,) = shown
    return found


def screen(found: View, width: int) -> str:
    """The lines of a terminal with so many columns."""
    lines = (line.plain.rstrip() for line in rendered(found, width))
    return "\n".join(lines).replace(str(ROOT), ".") + "\n"


def golden(name: str) -> Path:
    """The file that holds a screen."""
    return GOLDEN / f"{name}-{WIDTH}.txt"


def picture(found: View) -> str:
    """The picture of a view that has one."""
    blocks = (*found.blocks, *found.details)
    (drawn,) = (block.draw().file() for block in blocks if isinstance(block, Figure))
    return drawn


def write_all() -> None:
    """Write every golden file again; look at the difference before committing."""
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for name in COMMANDS:
        golden(name).write_text(screen(view(name), WIDTH))
    PICTURE.write_text(picture(view("compare-jobs")))


if __name__ == "__main__":
    write_all()
