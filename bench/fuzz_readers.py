"""Damaged inputs: `python bench/fuzz_readers.py [COUNT] [DIR ...]`, or `... hostile [WORD]`.

Takes the examples, and files below DIR if there are any, breaks copies of them (bytes flipped, cut,
doubled, numbers made huge, packed again) and explains each. Counts what happened; the exit code is
1 if one ended in anything but an answer or an `InputError`, took over 2 s of CPU time, or the
memory grew by over 1 GiB. `hostile` reads files of at most 1 MB that are made to cost time and
memory (whose name holds WORD), each in a process of its own: under 10 s of CPU time, 500 MB, no
traceback.
"""

import contextlib
import gzip
import io
import itertools
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from bench.hostile_cases import named
from bench.hostile_files import measured, repeated
from syncwall.cli import main as syncwall
from syncwall.explain.answer import explain
from syncwall.problems import InputError
from syncwall.read.detect import kind_of

LARGEST = 2 << 20
"""Unpacked bytes of a file that is worth breaking thousands of times."""
SLOW_S, MOST_BYTES = 2.0, 1 << 30


def seeds(directories: list[Path]) -> list[tuple[str, bytes]]:
    """Contents of files that are known, unpacked, not too large."""
    examples = Path(__file__).parent.parent / "examples"
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
            data[at:at] = dice.choice(
                (b"\x00", b"\n", b'"', b"\xff\xfe", b"]]>", b"<!ENTITY a 'b'>")
            )
    return gzip.compress(bytes(data), 1) if dice.random() < 0.1 else bytes(data)


def hostile(word: str) -> int:
    """Read every hostile file; prints the dearest and the failures."""
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


def main() -> int:
    if sys.argv[1:2] == ["hostile"]:
        return hostile(" ".join(sys.argv[2:]))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    known = seeds([Path(name) for name in sys.argv[2:]])
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
    print(f"{count} inputs from {len(known)} files: {dict(ended)}; slowest {slowest:.2f} s; "
          f"memory +{grown / 2**20:.0f} MiB")  # fmt: skip
    print("\n".join(bad[:20]))
    return 1 if bad or grown > MOST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
