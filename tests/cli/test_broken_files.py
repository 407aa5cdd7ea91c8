"""Broken descriptions end in words: exit code 2, a line number, never a traceback."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.cli import main

RUN = """\
model: llama-3.1-8b
cluster:
  base: dgx-h100
  node:
    nics: {count: 8, rate: 400 Gb/s}
  fabric:
    rails: 8
    tiers:
      - {name: leaf, nodes: 32}
      - {name: spine, oversubscription: "1:2"}
nodes: 4
seq: 8192
layout:
  tp: 8
  shard: fsdp
  micro_batch: 1
  global_batch: 64
  bucket: 25 MiB
  recompute: selective
"""
DEVICE = """\
vendor: acme
architecture: roadrunner
peak: {bf16: {value: 500 TFLOP/s, trust: measured, source: our bench}, fp32: 60 TFLOP/s}
memory: {size: 64 GB, rate: 2 TB/s}
scale_up: {link: nvlink-4, links: 18, rate: 900 GB/s duplex}
"""
MODEL = """\
layers: 32
hidden: 4096
vocab: 32000
attention: {heads: 32, kv_heads: 8}
mlp: {hidden: 14336, gated: true}
moe: {experts: 8, top_k: 2, hidden: 2048}
"""
FILES = {"run": RUN, "device": DEVICE, "model": MODEL}
KEY = re.compile(r"\b([a-z_0-9]+)(?=:)")
PLACE = re.compile(r"\.(?:yaml|json):\d+:\d+  ")

Breaker = Callable[[str, random.Random], str]


def misspelt_key(text: str, choose: random.Random) -> str:
    match = choose.choice(list(KEY.finditer(text)))
    return text[: match.start(1)] + match[1] + "x" + text[match.end(1) :]


def repeated_line(text: str, choose: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    tops = [line for line in lines if re.match(r"\w+: \S", line)]
    return text + choose.choice(tops)


def tab_for_indentation(text: str, choose: random.Random) -> str:
    return text + "more:\n\t- 1\n"


def open_bracket(text: str, choose: random.Random) -> str:
    return text + choose.choice(["extra: [1, 2\n", "extra: {a: 1\n", 'extra: "no end\n'])


def strange_character(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text))
    return text[:at] + choose.choice("\x00\x07\x1b\ufffe") + text[at:]


def number_out_of_range(text: str, choose: random.Random) -> str:
    key = "layers" if "layers" in text else "count" if "count" in text else "links"
    return re.sub(rf"{key}: \d+", f"{key}: {choose.choice(['0', '-3', '1.5', 'many', '~'])}", text)


def unit_lost(text: str, choose: random.Random) -> str:
    if "layers" in text:
        return text.replace("hidden: 4096", "hidden: 4096 B")
    unit = choose.choice(re.findall(r" (Gb/s|MiB|TFLOP/s|TB/s|GB/s)", text))
    return text.replace(f" {unit}", choose.choice(["", "ps", " apples", " gb", " "]), 1)


def wrong_kind(text: str, choose: random.Random) -> str:
    tops = re.findall(r"^(\w+):", text, re.MULTILINE)
    key = choose.choice(tops)
    value = choose.choice(["[[1]]", "{{a: 1}}", "[x, y]"]).replace("{{", "{").replace("}}", "}")
    return re.sub(rf"^{key}:.*(\n .*)*", f"{key}: {value}", text, count=1, flags=re.MULTILINE)


BREAKERS: list[Breaker] = [
    misspelt_key,
    repeated_line,
    tab_for_indentation,
    open_bracket,
    strange_character,
    number_out_of_range,
    unit_lost,
    wrong_kind,
]


@pytest.mark.parametrize("what", FILES)
def test_the_unbroken_files_are_fine(what, tmp_path: Path, capsys):
    path = tmp_path / "file.yaml"
    path.write_text(FILES[what])
    assert main(["show", what, str(path)]) == 0
    assert capsys.readouterr().out


@pytest.mark.slow
@settings(max_examples=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    what=st.sampled_from(sorted(FILES)),
    breaker=st.sampled_from(BREAKERS),
    seed=st.integers(0, 2**32),
)
def test_2000_broken_files_exit_with_2_and_a_line(what, breaker, seed, tmp_path, capsys):
    path = tmp_path / "file.yaml"
    path.write_text(breaker(FILES[what], random.Random(seed)), encoding="utf-8")
    assert main(["show", what, str(path)]) == 2
    message = capsys.readouterr().err
    assert PLACE.search(message), message
    assert "Traceback" not in message


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    what=st.sampled_from(sorted(FILES)),
    at=st.floats(0, 1),
    length=st.integers(0, 12),
    junk=st.binary(max_size=12),
)
def test_random_damage_is_read_or_refused_with_a_line(what, at, length, junk, tmp_path, capsys):
    raw = FILES[what].encode()
    start = int(at * len(raw))
    path = tmp_path / "file.yaml"
    path.write_bytes(raw[:start] + junk + raw[start + length :])
    code = main(["show", what, str(path)])
    output = capsys.readouterr()
    assert code == 0 or (code == 2 and PLACE.search(output.err)), output.err


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    ),
    what=st.sampled_from(sorted(FILES)),
)
def test_any_json_is_refused_with_a_line(value, what, tmp_path, capsys):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(value))
    assert main(["show", what, str(path)]) == 2
    assert PLACE.search(capsys.readouterr().err)
