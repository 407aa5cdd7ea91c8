"""InfiniBand against Ethernet on the same GPUs: every pair of published runs in the right order."""

from itertools import combinations

from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.table import OWN_RUNS, read_tables, row_doubt

SAME = 0.02
"""Measured times nearer than this are equal: on one node no fabric is used."""


def test_every_pair_of_fabrics_comes_in_the_measured_order():
    rows = [row for row in read_tables(OWN_RUNS) if row.source == "azure-h100-fabric-blog"]
    found = outcomes([case_of(row) for row in rows if not row_doubt(row)])
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, outcome in enumerate(found):
        row = outcome.case.row
        kernels = row.text("options").removesuffix(";NCCL_NET=Socket")
        key = tuple(row.text(name) for name in ("model", "gpus", "mbs", "gbs", "seq_len", "shard"))
        groups.setdefault((*key, kernels), []).append(index)
    pairs = [(found[a], found[b]) for group in groups.values() for a, b in combinations(group, 2)]
    crossing = [
        (a, b)
        for a, b in pairs
        if a.case.row.text("inter_link") != b.case.row.text("inter_link")
        and abs(a.case.measured_s / b.case.measured_s - 1) > SAME
    ]
    assert len(crossing) >= 8
    for a, b in crossing:
        assert (a.step_s > b.step_s) == (a.case.measured_s > b.case.measured_s), a.case.row.id
