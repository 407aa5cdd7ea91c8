"""The sync wall as a page, as data and as a drawing."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from syncwall.answer.interval import supported_gpus, validated_gpus
from syncwall.cli import main
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import start_of
from syncwall.plan.wall.sync_wall import WallPlan, wall_of
from syncwall.records import json_text
from syncwall.show.wall import side_verdict, side_why, svg_chart, terminal_chart, wall_count
from tests.describe.stated import stated

RUN = [
    "--model",
    "llama-3.1-8b",
    "--cluster",
    "dgx-h100",
    "--layout.shard",
    "fsdp",
    "--layout.global-batch",
    "256",
    "--most",
    "1024",
]


@pytest.fixture(scope="module")
def start():
    flags = {
        "model": "llama-3.1-8b",
        "cluster": "dgx-h100",
        "layout.shard": "fsdp",
        "layout.global_batch": "256",
        "nodes": "4",
        "seq": "4096",
    }
    return start_of(stated(None, flags))


@pytest.fixture(scope="module")
def answer(start):
    return wall_of(start, 2**13)


def test_one_screen_that_leads_with_the_verdict(capsys):
    assert main(["plan", "wall", *RUN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Verdict   strong scaling ")
    assert len(lines) <= 40
    for said in (
        "as it is",
        "twice the NIC rate",
        "half the network latency",
        "DiLoCo",
        "Why",
        "Chosen",
    ):
        assert any(said in line for line in lines), said


def test_json_says_what_the_page_says(start, answer):
    record = json.loads(json_text(WallPlan(start, answer).to_dict()))
    strong = record["sides"]["strong"]
    assert strong["curve"][0]["efficiency"] == pytest.approx(1.0)
    assert strong["base"]["gpus"] == strong["curve"][0]["gpus"]
    assert [wall["level"] for wall in strong["walls"]] == [0.9, 0.8, 0.5]
    assert sum(strong["causes"].values()) == pytest.approx(1.0)
    assert record["replica_batch"] == 8  # 256 sequences on 32 replicas


def test_the_chart_fits_a_terminal(answer):
    lines = terminal_chart(answer)
    assert max(map(len, lines)) <= 100
    assert sum(line.count("○") + line.count("◉") for line in lines[1:]) > 30


def test_the_drawing_is_a_picture_with_both_curves(answer, tmp_path):
    path = tmp_path / "wall.svg"
    path.write_text(svg_chart(answer).file())
    root = ET.parse(path).getroot()
    curves = [e for e in root.iter() if e.tag.endswith("polyline")]
    assert len(curves) == len(answer.sides) == 2


def test_least_is_the_count_to_compare_with(start):
    found = wall_of(start, 2**10, least=64)
    assert {side.base.gpus for side in found.sides.values()} == {64}


def test_a_machine_that_exists_ends_the_curve():
    flags = {"model": "gpt2-xl", "cluster": "baskerville", "layout.shard": "ddp", "seq": "1024"}
    found = wall_of(start_of(stated(None, flags)), 2**20)
    built = found.setup.case.cluster
    most = (built.built_nodes or 0) * built.gpus_per_node
    assert most
    assert max(side.curve.gpus[-1] for side in found.sides.values()) <= most


def test_a_machine_without_a_network_is_one_node(capsys):
    flags = ["--model", "tiny-15m", "--cluster", "laptop", "--seq", "256"]
    assert main(["plan", "wall", *flags]) == 0
    assert "twice the NIC rate" not in capsys.readouterr().out


def test_the_batch_of_a_replica_can_be_stated(start):
    found = wall_of(start, 2**10, replica_batch=3)
    side = found.sides[Scaling.WEAK].curve
    assert set(np.asarray(side.layout.global_batch) // np.asarray(side.layout.dp)) == {3}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cluster", "dgx-h100"], "write --model NAME and --cluster NAME"),
        (
            ["--model", "llama-3.1-405b", "--cluster", "dgx-h100", "--layout.shard", "ddp"],
            "does not",
        ),
        ([*RUN, "--layout.tp", "3"], "tp 3 does not divide 32 attention heads"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(flags, said, capsys):
    assert main(["plan", "wall", *flags]) == 2
    assert said in capsys.readouterr().err


def test_curves_end_where_nothing_was_validated(start):
    """The largest validated run says where; more is asked for by name, and said to be extrapolated."""
    usual = wall_of(start, searching=False)
    assert usual.setup.most == validated_gpus()
    assert "extrapolated" not in _page(usual)
    asked = wall_of(start, 2**40, searching=False)
    assert asked.setup.most == supported_gpus() < 2**20
    page = _page(asked)
    for number in re.findall(r"(?<![,.\d])\d{1,3}(?:,\d{3})+(?! extrap| GPUs \(extrap| tokens)", page):
        assert int(number.replace(",", "")) <= validated_gpus(), number


def _page(found):
    """What is printed beside the chart, whose axis says it once."""
    sides = found.sides.values()
    counts = (wall_count(wall) for side in sides for wall in side.walls)
    return "\n".join((*map(side_verdict, sides), *map(side_why, sides), *counts))


def test_shares_of_a_loss_are_parts_of_it(start):
    """Not "straggler 111%, the rest -51%"."""
    for side in wall_of(start, 2**14).sides.values():
        assert sum(side.causes.values()) == pytest.approx(1.0)
        assert all(0 < share <= 1 for share in side.causes.values())


def test_a_run_that_is_tight_has_a_curve_that_says_so():
    """Between the P10 of its memory and 95% of the device: `predict` calls it tight, not too large."""
    keys = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "gpus": "16", "seq": "6144"}
    layout = {"shard": "zero1", "global_batch": "64", "micro_batch": "1", "recompute": "none"}
    start = start_of(stated(None, keys | {f"layout.{key}": value for key, value in layout.items()}))
    assert start.prediction.fits
    assert not start.prediction.has_headroom
    found = wall_of(start, 64, searching=False)
    assert 16 in found.sides[Scaling.WEAK].curve.gpus
    (verdict, *_) = WallPlan(start, found).view().blocks
    assert "memory is tight" in verdict.about
