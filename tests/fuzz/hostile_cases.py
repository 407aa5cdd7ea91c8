"""Files of at most 1 MB made by hand, one for each way to cost time or memory that is known.

Holds `named`. Bombs, shared and deep structures, numbers with one hash, ranges, and tables of as
many devices, events, switches and ranks as fit.
"""

import gzip
import io
import json
import pickle
import random
import struct
import tarfile
import zipfile
from collections.abc import Iterator

from tests.fuzz.hostile_files import MOST_BYTES, REPORT, RUN, SETTINGS, HostileFile

_ONE_HASH = (1 << 61) - 1
"""Multiples of it have the hash 0."""
_LOG = b"h:1:2 [0] NCCL INFO Using network IB\n"


def named() -> Iterator[HostileFile]:
    """All of them."""
    yield from _pickles()
    yield from _json()
    yield from _topologies()
    yield from _traces()
    yield from _descriptions()
    yield from _archives()


def _many(begin: str, item: str, end: str = "") -> bytes:
    """`item`, in which {n} counts, as often as fits."""
    found, room = [begin], MOST_BYTES - len(begin) - len(end)
    number = 0
    while (room := room - len(made := item.replace("{n}", str(number)))) > 0:
        found.append(made)
        number += 1
    return "".join([*found, end]).encode()


def _zip(method: int, size: int) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as archive, archive.open("a.log", "w") as member:
        member.write(_LOG)
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return raw.getvalue()


def _archives() -> Iterator[HostileFile]:
    yield HostileFile("zip of bzip2", _zip(zipfile.ZIP_BZIP2, 1 << 28))
    yield HostileFile("zip of LZMA", _zip(zipfile.ZIP_LZMA, 1 << 28))
    yield HostileFile("zip of deflate", _zip(zipfile.ZIP_DEFLATED, 1 << 28))
    for name, line in (("newlines", b"\n"), ("short lines", b"NCCL 12345678\n"), ("zeros", b"\0")):
        packed = gzip.compress(_LOG + line * (100_000_000 // len(line)), 1)
        yield HostileFile(f"gzip of {name}", packed)
        incompressible = random.Random(0).randbytes(MOST_BYTES - 2000 - len(packed))
        yield HostileFile(f"gzip of {name} below the ratio", packed + gzip.compress(incompressible, 1))
    empty = gzip.compress(b"")
    yield HostileFile("empty gzip members", gzip.compress(_LOG) + empty * (900_000 // len(empty)))
    event = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7}},'
    begin = b'{"traceEvents":['
    yield HostileFile("gzip of a trace", gzip.compress(begin + event * 1_000_000, 1), file="rank0.json")
    yield HostileFile("gzip of lists", gzip.compress(b'{"pg_config":{},"entries":[' + b"[]," * 30_000_000, 1))
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.json")
        info.pax_headers = {"comment": "a" * 100_000_000}
        archive.addfile(info)
    yield HostileFile("tar with a long header", raw.getvalue(), file="traces.tar.gz")


def _pickles() -> Iterator[HostileFile]:
    shared: object = ["a"]
    for _ in range(30):
        shared = [shared] * 10
    entry = {
        "collective_seq_id": 1,
        "pg_id": shared,
        "process_group": [shared, shared],
        "profiling_name": "nccl:all_reduce",
        "frames": [{"filename": shared, "name": shared}],
        "input_dtypes": [shared] * 64,
        "state": shared,
    }
    yield HostileFile("pickle of shared lists", pickle.dumps({"version": shared, "entries": [entry]}))
    yield HostileFile("pickle name of lists", pickle.dumps(shared)[:-1] + b"\x8c\x01a\x93.")
    keys = range(0, 60_000 * _ONE_HASH, _ONE_HASH)
    pairs = b"".join(pickle.dumps(key, 2)[2:-1] + b"N" for key in keys)  # a dict would take long
    yield HostileFile("pickle keys of one hash", b"\x80\x02}X\7\0\0\0entries}(" + pairs + b"us.")
    sizes = [[1 << 20] * 16] * 64
    wide = {
        "collective_seq_id": 1,
        "input_sizes": sizes,
        "output_sizes": sizes,
        "frames": [{}] * 200,
    }
    yield HostileFile("pickle of one entry often", pickle.dumps({"entries": [wide] * 200_000}))
    alike = [dict(wide) for _ in range(30_000)]
    yield HostileFile("pickle of entries alike", pickle.dumps({"entries": alike}))
    yield HostileFile("pickle of a large integer", pickle.dumps({"entries": [], "version": 1 << 7_000_000}))
    for size in (4400, 900_000):
        yield HostileFile(f"pickle of {size} digits", b"\x80\x02I" + b"9" * size + b"\n.")
    yield HostileFile("deep pickle", b"\x80\x02" + b"]" * 400_000 + b"a" * 399_999 + b".")
    yield HostileFile("pickle of marks", b"\x80\x02" + b"(" * 900_000 + b".")
    claims = b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40)
    yield HostileFile("pickle of a text too long", claims)


def _json() -> Iterator[HostileFile]:
    digits = "9" * 5000
    for kind, begin in (
        ("flight", '{"pg_config":{},"entries":['),
        ("netq", '[{"compounded_links":['),
        ("nccl-tests", '{"nccl-tests":['),
    ):
        yield HostileFile(f"{kind} of 5,000 digits", f"{begin}{digits}]}}]".encode())
        for depth in (900, 950, 980, 400_000):
            deep = "[" * depth + "]" * depth
            yield HostileFile(f"{kind} {depth} deep", f"{begin}{deep}]}}".encode())
        yield HostileFile(f"{kind} of lists", _many(begin, "[],", "[]]}"))
    for depth in (900, 940, 960, 975):
        deep = json.loads("[" * depth + "]" * depth)
        device = {"id": 1, "name": deep, "device_type": "switch"}
        graph = {"compounded_links": [], "nodes": [{"compounded_nodes": [device]}]}
        yield HostileFile(f"netq name {depth} deep", json.dumps([graph]).encode())
        event = {"ph": "X", "name": "k", "cat": deep, "pid": deep, "tid": deep, "ts": 1, "dur": 1}
        yield HostileFile(
            f"trace thread {depth} deep",
            json.dumps({"traceEvents": [event]}).encode(),
            file="rank0.json",
        )
    vain = '{"traceEvents":[' + '{"ph":' * 900 + "[" + "0," * 490_000
    yield HostileFile("elements decoded in vain", vain.encode(), file="rank0.json")
    switch = '{"id":{n},"name":"{n}","device_type":"switch"},'
    body = _many('[{"compounded_links":[],"nodes":[{"compounded_nodes":[', switch, "{}]}]}]")
    yield HostileFile("netq of many switches", body)


def _topologies() -> Iterator[HostileFile]:
    one = "switches:\n  a: {}\nblocks:\n- {switch: a, nodes: ["
    for count in (1, 20):
        text = one + '"n[0-999998]", ' * count + "]}\n"
        yield HostileFile(f"topograph of {count} ranges", text.encode(), file="model.yaml")
    full = one + '"n[1-99998]"]}\n'
    yield HostileFile("topograph, as large as may be", full.encode(), file="model.yaml")
    chain = _many("switches:\n", "  s{n}: {switches: [t{n}]}\n")
    yield HostileFile("topograph of many switches", chain, file="model.yaml")
    for kind, gpu in (("0302", "GPUs"), ("0207", "adapters")):
        begin = '<system version="1"><cpu numaid="0">'
        item = f'<pci class="0x{kind}00" busid="0000:00:00.0"/>'
        yield HostileFile(f"NCCL topology of {gpu}", _many(begin, item, "</cpu></system>"))
    gpus = '<pci busid="0000:00:{n}.0"><gpu dev="0"/></pci>' * 200
    links = _many(
        f'<system><cpu numaid="0">{gpus}<pci><gpu dev="1">',
        "<nvlink/>",
        "</gpu></pci></cpu></system>",
    )
    yield HostileFile("NCCL topology of links", links)
    begin, end = "<system><cpu>" + "<pci>" * 190, "</pci>" * 190 + "</cpu></system>"
    both = '<pci class="0x0302"/>' * 250 + '<pci class="0x0207"/>' * 1000
    yield HostileFile("NCCL topology, deep and full", (begin + both + end).encode())
    mask = ",".join(["ffffffff"] * 128)
    cpus = f'<cpu numaid="{{n}}" affinity="{mask}"/>'
    yield HostileFile("NCCL topology of masks", _many("<system>", cpus, "</system>"))
    objects = f'<object type="NUMANode" os_index="{{n}}" nodeset="0x1" cpuset="{"f" * 1000}"/>'
    yield HostileFile("hwloc of masks", _many("<topology>", objects, "</topology>"))
    device = '<object type="PCIDev" pci_busid="0000:00:00.0" pci_type="0302 [10de:2330]"/>'
    yield HostileFile("hwloc of GPUs", _many("<topology>", device, "</topology>"))
    names = [f"GPU{n}" for n in range(480)]
    table = "\n".join(["\t".join(names), *(f"{name}\t" + "X\t" * 480 + "0-4000\t0" for name in names)])
    yield HostileFile("nvidia-smi of 480 GPUs", table.encode())
    names = names[:256]
    table = "\n".join(
        [
            "\t".join(names),
            *(f"{name}\t" + "NV1\t" * 256 + f"{n}-4000\t0" for n, name in enumerate(names)),
        ]
    )
    yield HostileFile("nvidia-smi of 256 GPUs", table.encode())
    yield HostileFile(
        "cables of one switch",
        _many('Switch\t40 "S-0"\n', '[{n}]\t"H-{n}"[1] # "h{n} mlx" 4xNDR\n'),
    )
    ring = 'Switch\t40 "S-{n}"\n[1]\t"S-0"[{n}] # "s" 4xNDR\n'
    yield HostileFile("star of switches", _many("vendid=1\n", ring))
    line = [f'Switch\t40 "S-{n}"\n[1]\t"S-{n + 1}"[2] # "s" 4xNDR\n' for n in range(20_000)]
    hosts = 'Ca\t1 "H-1" # "h mlx"\n[1]\t"S-0"[3] # "s" 4xNDR\n'
    yield HostileFile("chain of switches", (hosts + "".join(line)).encode()[:MOST_BYTES])
    yield HostileFile("graphs", _many("<graphs>", '<graph speedintra="1" speedinter="1"/>', "</graphs>"))


def _traces() -> Iterator[HostileFile]:
    def trace(name: str, item: str) -> HostileFile:
        return HostileFile(name, _many('{"traceEvents":[', item, "{}]}"), file="rank0.json")

    event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{n},"dur":9000000,"args":{"stream":7}},'
    yield trace("trace, all at once", event)
    yield trace("trace of names", event.replace('"k"', '"nccl{n}"'))
    yield trace("trace of streams", event.replace("7", "{n}"))
    yield trace(
        "trace of steps",
        event.replace('"k"', '"ProfilerStep#{n}"').replace("kernel", "user_annotation"),
    )
    yield trace(
        "trace of optimizers",
        event.replace('"k"', '"Optimizer.step#A"').replace("kernel", "user_annotation"),
    )
    yield trace("trace of operators", event.replace("kernel", "cpu_op"))
    yield trace(
        "trace of collectives",
        event.replace(
            '"stream":7',
            '"stream":7,"Collective name":"allreduce","Seq":{n},"Process Group Name":"{n}"',
        ),
    )
    yield trace(
        "trace of launches",
        event.replace("kernel", "cuda_runtime").replace('"stream":7', '"correlation":{n}'),
    )
    one_hash = [{"ph": "X", "name": "k", "pid": n * _ONE_HASH, "tid": 0, "ts": 1} for n in range(12_000)]
    yield HostileFile(
        "trace threads of one hash",
        json.dumps({"traceEvents": one_hash}).encode(),
        file="rank0.json",
    )
    step = (
        "0,0,0,{n},0,0,0,0,forward-compute,1,1\n",
        "{n},0,{n},0,0,0,0,0,forward-compute,1,1\n",
        "0,{n},{n},0,0,0,0,0,forward-send,1,1\n",
        "0,0,0,0,{n},{n},{n},{n},backward-compute,{n},1\n",
        "0,2147483647,2147483647,0,0,0,0,0,forward-compute,1,1\n",
        *(
            f"0,0,0,0,{{n}},{{n}},-1,-1,{one}-compute,1,1\n0,0,0,0,{{n}},{{n}},-1,-1,{two},1,1\n"
            for one, two in (("backward", "backward-send"), ("forward", "params-all-gather"))
        ),
    )
    head = "dp_rank,stage,rank,step,seq_id,mc,mb_id,gmc,optype,start_ts,duration\n"
    for number, row in enumerate(step):
        yield HostileFile(f"operations {number}", _many(head, row), file="table.csv")
    for stages, dp in ((256, 1), (1, 8192), (150, 150)):  # as many as are replayed
        workers = (
            f"{d},{p},{d},0,{n},0,{n},0,forward-compute,{n},{(d + p + n) % 7}\n"
            for n in range(22_000 // stages // dp)
            for d in range(dp)
            for p in range(stages)
        )
        raw = (head + "".join(workers)).encode()
        yield HostileFile(f"operations of {stages} by {dp} workers", raw, file="table.csv")
    init = "h{n}:1:2 [0] NCCL INFO comm 0x{n} rank {n} nranks 99999 cudaDev 0 busId {n} - Init COMPLETE\n"
    yield HostileFile("log of ranks", _many("", init))
    yield HostileFile("log of warnings", _many("", "h{n}:1:2 [0] NCCL WARN a{n}\n"))
    via = "h{n}:1:2 [0] NCCL INFO Channel 00/0 : {n}[0] -> {n}[0] via NET/IB/{n}\n"
    yield HostileFile("log of channels", _many("", via))
    entry = '{"collective_seq_id":{n},"pg_id":{n},"process_group":["{n}"],"state":"scheduled"},'
    yield HostileFile("dump of groups", _many('{"pg_config":{},"entries":[', entry, "{}]}"), file="dump_0")
    rows = "0,{n},1,1,k{n}\n"
    yield HostileFile("nsys of rows", _many("Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n", rows))
    sizes = "{n} 1 float sum -1 1.0 1.0 1.0 0 1.0 1.0 1.0 0\n"
    yield HostileFile("nccl-tests of sizes", _many("# nThread 1 nGpus 1\n", sizes))


def _descriptions() -> Iterator[HostileFile]:
    dotted = "a." * 20_000 + "a"
    for name, text in (
        ("header", f"[{dotted}]"),
        ("key", f"{dotted} = 1"),
        ("inline", f"x = {{{dotted} = 1}}"),
        ("quoted", f"[{dotted.replace('a', chr(34) + 'a' + chr(34))}]"),
        ("digits", "a = " + "9" * 5000),
        ("deep", "a = " + "[" * 400_000),
    ):
        yield HostileFile(f"toml {name}", text.encode(), SETTINGS, "settings.toml")
    yield HostileFile("toml tables", _many("", "[a{n}.b.c.d]\ne.f = 1\n"), SETTINGS, "settings.toml")
    script = "a=" + "x" * 4000 + "\n--a " + "$a" * 400_000
    yield HostileFile("variables of variables", script.encode(), SETTINGS, "settings.sh")
    yield HostileFile(
        "many variables",
        _many("a=$a$a$a$a\n", "--a{n} $a$a$a$a$a$a$a$a\n"),
        SETTINGS,
        "settings.sh",
    )
    yield HostileFile("dotted argument", b"--" + b"a." * 400_000 + b"a 1", SETTINGS, "settings.sh")
    for kind, words, file in (
        ("run", RUN, "run"),
        ("settings", SETTINGS, "settings"),
        ("report", REPORT, "r"),
    ):
        yield HostileFile(f"{kind}: unknown keys", _many("layout:\n", "  k{n}: 1\n"), words, f"{file}.yaml")
        yield HostileFile(f"{kind}: keys twice", _many("", "a: 1\n"), words, f"{file}.yaml")
        yield HostileFile(f"{kind}: a list", _many('{"layout":{"a":[', "0,", "0]}}"), words, f"{file}.json")
        yield HostileFile(f"{kind}: digits", b'{"nodes":' + b"9" * 5000 + b"}", words, f"{file}.json")
        laughs = "a0: &a0 [x]\n" + "".join(
            f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)
        )
        yield HostileFile(f"{kind}: aliases", laughs.encode(), words, f"{file}.yaml")
