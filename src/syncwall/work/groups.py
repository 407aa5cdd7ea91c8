"""Which ranks communicate along each axis of a layout.

Holds `groups` and `sizes_and_strides`. Ranks are numbered along the layout's `order`, the axis of
neighbouring ranks first.
"""

from syncwall.describe import Layout
from syncwall.work.number import Number, most
from syncwall.work.operations import Group, GroupAxis


def sizes_and_strides(layout: Layout) -> tuple[dict[str, Number], dict[str, Number]]:
    """Ranks of tp, cp, pp and dp, and how far apart neighbours on each of them are."""
    sizes: dict[str, Number] = {"tp": layout.tp, "cp": layout.cp, "pp": layout.pp, "dp": layout.dp}
    strides: dict[str, Number] = {}
    stride: Number = 1
    for axis in layout.order:
        if axis != "ep":  # taken from tp, cp and dp
            strides[axis] = stride
            stride = stride * sizes[axis]
    return sizes, strides


def groups(layout: Layout) -> dict[GroupAxis, Group]:
    """The group of every axis of a resolved layout, or of arrays of them."""
    sizes, strides = sizes_and_strides(layout)
    inner = _apart(strides, sizes)
    degree, experts, copies = layout.shard_degree, layout.ep * layout.etp, layout.expert_dp
    spans: dict[GroupAxis, tuple[Number, Number]] = {
        "tp": (layout.tp, strides["tp"]),
        "cp": (layout.cp, strides["cp"]),
        "dp": (sizes["dp"] * layout.cp, inner),
        "shard": (degree, inner),
        "replica": (layout.replicas_of_shards, inner * degree),
        "ep": (layout.ep, layout.etp),
        "expert-shard": (copies, experts),
        "expert-replica": (copies, experts),
        "pp": (layout.pp, strides["pp"]),
    }
    return {axis: Group(axis, ranks, apart) for axis, (ranks, apart) in spans.items()}


def _apart(strides: dict[str, Number], sizes: dict[str, Number]) -> Number:
    """From each rank of dp and cp together to the next, on average if others stand between."""
    spread = [strides[axis] * sizes[axis] * (sizes[axis] > 1) for axis in ("dp", "cp")]
    return most(most(*spread) // (sizes["dp"] * sizes["cp"]), 1)
