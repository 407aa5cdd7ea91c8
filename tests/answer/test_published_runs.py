"""The evidence that a prediction names can be followed: device, value, link, `show run`."""

import csv
import json
import random

import pytest

from syncwall.answer.interval import REGISTER, TABLE
from syncwall.answer.published_runs import published_run
from syncwall.cli import main
from syncwall.documents import opened_table

RUN = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8", "--framework", "torchtitan"]


def names() -> list[str]:
    """Runs that a prediction may be compared with, and those of the register."""
    found = []
    for table in (TABLE, REGISTER):
        with opened_table(table) as stream:
            found += [row["id"] for row in csv.DictReader(stream)]
    return found


def test_every_validated_run_can_be_looked_up():
    for name in random.Random(0).sample(names(), 60):
        found = published_run(name)
        assert found is not None, name
        assert found.error["id"] == name
        assert found.link
        assert found.measured or not found.cells, name
        assert " on " in found.what


def test_the_device_of_the_evidence_is_named_with_its_power_and_memory():
    found = published_run("titan-202412-t1-0", "torchtitan")
    assert found is not None
    assert found.what == "Llama 3.1 8b on 8 × H100-SXM-HBM2e-96GB (500W)"
    assert found.measured == "5,762 tokens/s/GPU"
    assert found.link.startswith("https://github.com/pytorch/torchtitan")


def test_what_a_prediction_names_is_shown_by_that_name(capsys):
    assert main(["predict", *RUN, "--json"]) == 0
    near = json.loads(capsys.readouterr().out)["nearest_validated_run"]
    assert main(["predict", *RUN]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    for said in (near["what"], near["measured"], near["link"], f"`syncwall show run {near['id']}`"):
        assert said in screen
    assert main(["show", "run", near["id"]]) == 0
    shown = capsys.readouterr().out
    assert near["what"] in shown
    assert near["measured"] in shown
    assert f"{near['ratio']:.2f} of its measured time" in shown
    assert main(["show", "run", near["id"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entry"]["cells"]["id"] == near["id"]


def test_a_run_whose_table_may_not_be_passed_on_leads_to_its_source(capsys):
    name = next(one for one in names() if (run := published_run(one)) and not run.cells)
    assert main(["show", "run", name]) == 0
    shown = capsys.readouterr().out
    assert "its table may not be passed on" in shown
    assert "https://" in shown or "arXiv" in shown


@pytest.mark.parametrize("name", ["nothing", "titan"])
def test_an_unknown_name_says_what_could_be_meant(name, capsys):
    assert main(["show", "run", name]) == 2
    assert "neither a file nor a published run, such as titan-202412-t1-0" in capsys.readouterr().err
