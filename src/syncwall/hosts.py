"""Names of hosts: this machine's own, lists of them as Slurm writes them, the first one of a job.

Holds `LOOPBACK`, `slurm_hosts` and `first_of_slurm`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Final

from syncwall.problems import InputError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MOST: Final = 1_000_000
_LONGEST: Final = 253
"""Letters of a host's name (RFC 1035)."""
_BRACKETS: Final = 10
_NAME: Final = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_BRACKET: Final = re.compile(r"\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*")


def slurm_hosts(text: str, *, file: str = "") -> Iterator[str]:
    """The hosts of a list such as "rack[1-2]-gpu[08-10,12].lan,login1", in its order.

    The last bracket counts fastest, and a range keeps the zeros of its first number, as those of
    `scontrol show hostnames` do. InputError if it is no such list, or has more than a million.
    """
    if left := _NAME.sub("", text).strip(", \t\r\n"):
        raise InputError.of(f'"{text[:60]}" has a "{left[0]}" without its partner', file=file)
    count = 0
    for name in _NAME.findall(text):
        fixed, brackets = _parts(name, file)
        count += prod(sum(len(numbers) for numbers, _ in one) for one in brackets)
        if count > _MOST:
            raise InputError.of(f'"{text[:60]}" names more than {_MOST:,} hosts', file=file)
        written = [[f"{n:0{width}}" for numbers, width in one for n in numbers] for one in brackets]
        between = [[[prefix], numbers] for prefix, numbers in zip(fixed, written, strict=False)]
        yield from map("".join, product(*(pool for pair in between for pool in pair), fixed[-1:]))


def _parts(name: str, file: str) -> tuple[list[str], list[list[tuple[range, int]]]]:
    """What stands around the brackets of a name, and in each the ranges and their digits."""
    parts = _BRACKET.split(name)
    fixed, brackets = parts[::2], parts[1::2]
    if len("".join(fixed)) > _LONGEST or len(brackets) > _BRACKETS:
        most = f"{_LONGEST} letters and {_BRACKETS} brackets"
        raise InputError.of(f'"{name[:60]}..." has more than {most}', file=file)
    return fixed, [[_range(name, part, file) for part in one.split(",")] for one in brackets]


def _range(name: str, text: str, file: str) -> tuple[range, int]:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if found is None or last < first:
        message = f'"{name[:60]}": "{text[:30]}" is no number or range of them: write 1 or 1-8'
        raise InputError.of(message, file=file)
    return range(first, last + 1), len(found[1])


def first_of_slurm(environ: Mapping[str, str]) -> str:
    """The first of Slurm's nodes; empty without them."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    try:
        return next(slurm_hosts(nodes), "")
    except InputError:  # not of Slurm, and no reason to stop who only asks
        return ""
