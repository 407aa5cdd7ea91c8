"""What the flags of `plan layouts` mean.

Holds `pins`, `sizes_of`, `gpu_counts` and `share`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from syncwall.cli.shares import share_of
from syncwall.describe import Cluster, Layout, lookup
from syncwall.describe.overrides import run_with
from syncwall.describe.reading import faults_of
from syncwall.documents import parse_document
from syncwall.plan.wires import with_gpus
from syncwall.problems import InputError, Problem


def pins(flags: Mapping[str, str]) -> dict[str, tuple[Any, ...]]:
    """Values of layout fields by flags "layout.tp": "4,8"; problems name the flag."""
    found: dict[str, tuple[Any, ...]] = {}
    for flag, text in flags.items():
        key = flag.removeprefix("layout.")
        if key == flag:
            continue
        pieces = [text] if text.startswith("[") else text.split(",")
        values = [_field(flag, key, piece) for piece in pieces]
        found[values[0][0]] = tuple(value for _, value in values)
    return found


def _field(flag: str, key: str, text: str) -> tuple[str, Any]:
    """Name and value of a layout field that is written as `text` in a file."""
    value = parse_document(text.strip(), f"--{flag}").value
    try:
        layout = Layout.model_validate({key: value}, context={"in_file": True})
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Layout)]
        raise InputError([Problem(f"--{flag}", 0, 0, message) for message in said]) from None
    name = next(iter(layout.model_fields_set))
    return name, getattr(layout, name)


def sizes_of(file: Path | None, flags: Mapping[str, str], gpus: str | None) -> list[Cluster]:
    """The cluster of the flags, or of the run file, with every number of GPUs of `gpus`."""
    if gpus is None:
        return []
    named = flags.get("cluster")
    cluster = lookup.cluster(named) if named else run_with(file, dict(flags)).cluster
    each = int(flags.get("gpus_per_node", cluster.gpus_per_node))
    counts = gpu_counts(gpus)
    odd = next((count for count in counts if count > each and count % each), None)
    if odd is not None:
        raise InputError.of(f"--gpus: {odd} GPUs are no whole nodes of {each}")
    whole = cluster.using(gpus_per_node=each)
    return [with_gpus(whole, count) for count in counts]


def gpu_counts(text: str) -> list[int]:
    """Counts written as "512", "512,1024" or "512..4096", which doubles."""
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            counts = [first]
            while 0 < counts[-1] * 2 <= last:
                counts.append(counts[-1] * 2)
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise InputError.of(f'--gpus: "{text}" is no count: write 512, 512,1024 or 256..4096')
    return counts


def share(text: str, flag: str) -> float:
    """A share written as "5%" or "0.05"."""
    found = share_of(text)
    if found is None or not 0.0 <= found < 1.0:
        raise InputError.of(f'{flag}: "{text}" is no share: write for example 5%')
    return found
