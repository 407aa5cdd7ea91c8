"""Damaged and hostile files: `python -m bench fuzz readers`, `python -m bench fuzz hostile`."""

import contextlib
import gzip
import io
import itertools
import random
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import ROOT, Dirs
from syncwall.cli import main as syncwall
from syncwall.explain.answer import explain
from syncwall.problems import InputError
from syncwall.read.detect import kind_of
from tests.fuzz.hostile_cases import named
from tests.fuzz.hostile_files import measured, repeated

LARGEST = 2 << 20
"""Unpacked bytes of a file that is worth breaking thousands of times."""
SLOW_S, MOST_BYTES = 2.0, 1 << 30


def seeds(directories: Sequence[Path]) -> list[tuple[str, bytes]]:
    """Contents of files that are known, unpacked, not too large."""
    examples = ROOT / "examples"
    found = []
    for directory in [examples / "explain", examples / "benchmarks", *directories]:
        for path in sorted(one for one in directory.rglob("*") if one.is_file()):
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
            try:
                found.append((kind_of(path).value, raw[:LARGEST]))
            except InputError:
                continue
    return found


def broken(raw: bytes, dice: random.Random) -> bytes:
    """`raw` with one to four faults."""
    data = bytearray(raw)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(max(len(data), 1))
        kind = dice.randrange(7)
        if kind == 0:
            data = data[:at]
        elif kind == 1 and data:
            data[at % len(data)] = dice.randrange(256)
        elif kind == 2:
            data[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 64)))
        elif kind == 3:
            data[at:at] = data[at : at + dice.randint(1, 4096)]
        elif kind == 4:
            data[at : at + 1] = dice.choice((b"9" * 400, b"-1e999", b"NaN", b"null", b"{" * 5000))
        elif kind == 5:
            del data[at : at + dice.randint(1, 4096)]
        else:
            data[at:at] = dice.choice((b"\x00", b"\n", b'"', b"\xff\xfe", b"]]>", b"<!ENTITY a 'b'>"))
    return gzip.compress(bytes(data), 1) if dice.random() < 0.1 else bytes(data)


def hostile(word: str = "") -> int:
    """Read files of at most 1 MB that are made to cost time and memory, each in its own process.

    Under 10 s of CPU time, 500 MB, no traceback; prints the dearest and the failures. With --word
    only those whose name holds it.
    """
    for words in (
        ["explain", "examples/explain"],
        ["predict", "examples/four-gpus-two-nodes.yaml"],
    ):
        with contextlib.redirect_stdout(io.StringIO()):
            syncwall(words)  # loads what the children then have
    found = []
    for case in itertools.chain(named(), repeated()):
        if word in case.name:
            cost = measured(case, syncwall)
            found.append((cost, case.name))
            if cost.is_bad:
                print(f"BAD {case.name}: {cost}"[:400], flush=True)
    for unit in ("cpu_s", "peak_bytes"):
        cost, name = max(found, key=lambda one: getattr(one[0], unit))
        print(f"most {unit}: {cost.cpu_s:.1f} s, {cost.peak_bytes / 1e6:.0f} MB: {name}")
    bad = sum(cost.is_bad for cost, _ in found)
    print(f"{len(found)} files, {bad} bad")
    return 1 if bad else 0


def readers(directories: Dirs = (), count: int = 500) -> int:
    """Break copies of the examples, and of files below DIR, and explain each.

    Bytes are flipped, cut, doubled, numbers made huge, packed again. Counts what happened; the exit
    code is 1 if one ended in anything but an answer or an `InputError`, took over 2 s of CPU time,
    or the memory grew by over 1 GiB.
    """
    known = seeds(directories)
    dice, ended, bad = random.Random(0), Counter[str](), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    slowest = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(count):
            kind, raw = known[number % len(known)]
            path = Path(directory) / f"{number % 16}_rank{number % 4}"
            path.write_bytes(broken(raw, dice))
            began = time.process_time()
            try:
                explain([path])
                ended["answered"] += 1
            except InputError:
                ended["refused"] += 1
            except Exception:  # noqa: BLE001 - what this looks for
                ended["FAILED"] += 1
                bad.append(f"{number} {kind}: {traceback.format_exc().strip()[-400:]}")
            took = time.process_time() - began
            slowest = max(slowest, took)
            if took > SLOW_S:
                bad.append(f"{number} {kind}: {took:.1f} s")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(
        f"{count} inputs from {len(known)} files: {dict(ended)}; slowest {slowest:.2f} s; "
        f"memory +{grown / 2**20:.0f} MiB"
    )
    print("\n".join(bad[:20]))
    return 1 if bad or grown > MOST_BYTES else 0
