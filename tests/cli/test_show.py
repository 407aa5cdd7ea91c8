import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.catalogue import names
from syncwall.cli import main
from syncwall.describe import lookup
from syncwall.show.entries import listing_view
from syncwall.show.write.terminal import rendered


def shown(capsys, *arguments: str) -> Any:
    """The entries of a list, or the one entry."""
    assert main(["show", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["entry"] if found["entries"] is None else found["entries"]


def page(capsys, *arguments: str) -> str:
    assert main(["show", *arguments]) == 0
    return str(capsys.readouterr().out)


def test_the_largest_llama(capsys):
    assert shown(capsys, "model", "llama-3.1-405b")["parameters"] == 405853388800


def test_an_h100_with_the_source_of_its_numbers(capsys):
    record = shown(capsys, "device", "h100-sxm")
    assert 989.4e12 <= record["peak_flop_per_s"]["bf16"] <= 989.5e12
    assert record["memory"]["rate_bytes_per_s"] == 3.35e12
    origin = record["provenance"]["memory.rate_bytes_per_s"]
    assert origin["trust"] == "datasheet"
    assert origin["source"] == "nvidia-h100-datasheet"
    assert origin["date"]


def test_a_dgx_h100(capsys):
    record = shown(capsys, "cluster", "dgx-h100")
    assert record["scale_up"]["rate_bytes_per_s"] == 450e9
    assert record["node"]["nics"]["count"] == 8
    assert record["node"]["nics"]["rate_bytes_per_s"] == 50e9
    assert record["nic_bytes_per_s_per_gpu"] == 50e9
    assert record["provenance"]["scale_up.rate_bytes_per_s"]["stated"] == "900 GB/s duplex"


@pytest.mark.parametrize(
    "what", ["devices", "links", "clusters", "models", "prices", "frameworks", "failures"]
)
def test_lists_have_a_line_an_entry_in_both_forms(what, capsys):
    lines = shown(capsys, what)
    text = page(capsys, what).splitlines()
    assert len(text) == len(lines) + 1
    first = next(iter(lines[0].values()))
    assert text[1].startswith(f"  {first} ")


@pytest.mark.parametrize("kind", lookup.READERS)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_narrow_lists_have_fewer_columns_and_whole_names(kind, width):
    _, *lines = [line.plain for line in rendered(listing_view(kind), width)]
    assert {line.split()[0] for line in lines} == set(names(kind))
    assert max(map(len, lines)) <= width


def test_a_term_has_its_meaning_and_the_words_of_others(capsys):
    text = page(capsys, "term", "tensor-parallel")
    assert "--tensor-model-parallel-size" in text
    assert "docs/explanation/model.md" in text
    assert "pipeline bubble" in page(capsys, "terms")
    assert shown(capsys, "term", "bus bandwidth")["name"] == "busbw"
    assert "MFU" in [one["name"] for one in shown(capsys, "terms")]


@pytest.mark.parametrize(
    ("what", "name", "words"),
    [
        ("device", "h100-sxm", ["989.4 TFLOP/s", "stated 900 GB/s duplex", "80 GiB", "datasheet"]),
        ("link", "nvlink-4", ["25 GB/s", "all-reduce busbw", "measured"]),
        ("cluster", "baskerville", ["gpus per node", "6.25 GB/s when all send at once"]),
        ("model", "deepseek-v3", ["671,026,404,352", "37,552,282,624", "arXiv:2412.19437"]),
        ("price", "aws", ["/GPU-hour", "on-demand"]),
        ("failure", "llama3-h100", ["0.3029 a day of 1,000", "per gpu, takes domain", "419"]),
        ("framework", "nanotron", ["traffic", "host per operation", "us", "flash-2"]),
    ],
)
def test_a_sheet_has_numbers_with_units_and_sources(what, name, words, capsys):
    text = page(capsys, what, name)
    assert all(word in text for word in words)
    assert "Sources" in text
    assert "rates are one way" in text


def test_a_run_is_shown_complete(tmp_path: Path, capsys):
    (tmp_path / "run.yaml").write_text("model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 2\n")
    assert "tokens per step" in page(capsys, "run", str(tmp_path / "run.yaml"))
    record = shown(capsys, "run", str(tmp_path / "run.yaml"))
    assert (record["gpus"], record["layout"]["dp"], record["seq"]) == (16, 16, 8192)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["device"], "`show device` needs a name; `show devices` lists them"),
        (["run"], "`show run` needs a run file"),
        (["term", "bubbel"], 'no term "bubbel"; did you mean "bubble"?'),
        (["devices", "h100"], "for one write `show device h100`"),
        (["model", "llama-3.1-9b"], 'unknown model "llama-3.1-9b"; did you mean "llama-3.1-8b"'),
        (["framework", "nanotorn"], 'unknown framework "nanotorn"; did you mean "nanotron"'),
        (["run", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file"),
        (["devices", "--catalogue", "/nonexistent"], "is not a catalogue"),
    ],
)
def test_a_wrong_name_exits_with_2(arguments, message, capsys):
    assert main(["show", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_dropped_file_is_a_device_and_nothing_else_is_needed(tmp_path, capsys):
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "acme-1.yaml").write_text(
        "vendor: acme\n"
        "architecture: roadrunner\n"
        "peak: {bf16: {value: 500 TFLOP/s, trust: measured, source: our bench, date: 2026-11}}\n"
        "memory: {size: 64 GB, rate: 2 TB/s}\n"
    )
    record = shown(capsys, "device", "acme-1", "--catalogue", str(tmp_path))
    assert record["peak_flop_per_s"]["bf16"] == 500e12
    assert record["provenance"]["peak_flop_per_s.bf16"]["source"] == "our bench"
    names = [line["name"] for line in shown(capsys, "devices", "--catalogue", str(tmp_path))]
    assert {"acme-1", "h100-sxm"} <= set(names)


def test_a_framework_is_shown_with_its_tables(capsys):
    record = shown(capsys, "framework", "nanotron")
    assert record["host"]["per_operation_s"] > 0
    assert set(record["attention"].values()) <= {"flash-3", "flash-2", "flash-1", "unfused"}
    assert "nanotron" in [line["name"] for line in shown(capsys, "frameworks")]
    assert shown(capsys, "framework", "nemo")["name"] == "megatron-core"
