"""Damaged and hostile topologies: an answer or an InputError, in bounded time and memory."""

import gzip
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncwall.problems import InputError
from syncwall.read.detect import read_topology
from syncwall.read.fabric_file import read_ibnetdiscover, read_netq, read_topograph
from syncwall.read.host_topology import read_lstopo, read_smi_topology
from syncwall.read.limited import read_xml
from syncwall.read.nccl_topology import read_nccl_graphs, read_nccl_topology
from tests.read import topology_samples as samples

READERS: list[tuple[Callable[[Path], Any], str]] = [
    (read_nccl_topology, samples.nccl()),
    (read_lstopo, samples.LSTOPO),
    (read_nccl_graphs, samples.GRAPH),
    (read_smi_topology, samples.SMI),
    (read_smi_topology, samples.ROCM),
    (read_ibnetdiscover, samples.IBNET),
    (read_topograph, samples.TOPOGRAPH),
    (read_netq, samples.NETQ),
    (read_topology, samples.nccl()),
]
MUTATIONS = 150
WORDS = [
    b"999999999999999999999",
    b"-1",
    b"\x00",
    b"\xff\xfe",
    b"<",
    b">",
    b'"',
    b"&amp;",
    b"NaN",
    b"1e308",
    b"[1-999999999]",
    b"NV9999",
    b"]]>",
    b"GPU0",
    b"{",
    b"\n",
    b"\xc3",
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with a few bytes changed, parts lost, doubled or replaced."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.randint(0, 60))
        kind = chance.randrange(5)
        if kind == 0:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:end] + data[at:end] * chance.randint(1, 20) + data[end:]
        elif kind == 3:
            data = data[:at] + chance.choice(WORDS) + data[end:]
        else:
            data = data[:at]
    return data


@pytest.mark.parametrize(("reader", "text"), READERS)
def test_damaged_files_are_read_in_part_or_refused(tmp_path, reader, text):
    chance = random.Random(7)
    path = tmp_path / "file"
    refused = 0
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(text.encode(), chance))
        start = time.process_time()
        try:
            reader(path)
        except InputError:
            refused += 1
        assert time.process_time() - start < 2
    assert refused < MUTATIONS


LAUGHS = '<!DOCTYPE a [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
)
BOMBS = {
    "billion laughs": f"{LAUGHS}]><system>&j;</system>",
    "outside file": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>',
    "outside declarations": '<!DOCTYPE a [<!ENTITY % x SYSTEM "http://a.invalid/x"> %x;]><system/>',
    "quadratic": f'<!DOCTYPE a [<!ENTITY x "{"x" * 50000}">]><system>{"&x;" * 50000}</system>',
    "deep": "<system>" * 100_000,
    "wide": "<system>" + "<cpu/>" * 300_000 + "</system>",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_xml_bombs_are_refused(tmp_path, bomb):
    path = tmp_path / "bomb.xml"
    path.write_text(BOMBS[bomb])
    start = time.process_time()
    with pytest.raises(InputError):
        read_xml(path)
    assert time.process_time() - start < 2


@pytest.mark.slow
def test_the_widest_file_needs_little_memory(tmp_path):
    path = tmp_path / "bomb.xml"
    path.write_text(BOMBS["wide"])
    tracemalloc.start()
    with pytest.raises(InputError):
        read_xml(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20


def test_a_document_type_that_only_names_a_file_is_not_followed(tmp_path):
    path = tmp_path / "topology.xml"
    (tmp_path / "evil.dtd").write_text('<!ENTITY x "expanded">')
    path.write_text('<!DOCTYPE topology SYSTEM "evil.dtd"><topology>&x;</topology>')
    root, _ = read_xml(path)
    assert root.text == ""


def test_a_packed_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.xml.gz"
    path.write_bytes(gzip.compress(b"<system>" + b" " * (80 << 20)))
    with pytest.raises(InputError, match=r"expands|larger"):
        read_xml(path)


@pytest.mark.parametrize("reader", [reader for reader, _ in READERS])
@pytest.mark.parametrize("data", [b"", b"\x00" * 100, b"<", b"\xff\xfe<\x00a\x00", b"plain text\n"])
def test_files_of_another_kind_are_refused(tmp_path, reader, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InputError):
        reader(path)


def test_long_lines_take_no_time(tmp_path):
    path = tmp_path / "file"
    path.write_text("GPU0 " * 2_000_000)
    start = time.process_time()
    with pytest.raises(InputError):
        read_smi_topology(path)
    path.write_text('[1]\t"' + "S" * 3_000_000 + "\n" + "Switch 1 " + '"' * 1_000_000)
    with pytest.raises(InputError):
        read_ibnetdiscover(path)
    assert time.process_time() - start < 2
