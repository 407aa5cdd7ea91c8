"""What runs beside what in a priced block."""

import pytest

from syncwall.cause import Cause
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.cost.prices import Prices
from syncwall.describe import Software
from syncwall.timeline.segments import Segments, segments
from syncwall.work.block import Block, Operation, Stream, Wait
from syncwall.work.operations import Collective, Gemm, Group
from tests.describe.samples import cluster

MACHINE = cluster(nodes=16)
FIT = calibration(MACHINE.device)
GATHER = Collective("all-gather", 4e8, Group("shard", 128))


def prices() -> Prices:
    network = NcclNetwork(MACHINE, FIT.network)
    return Prices(MACHINE.device, network, FIT, ResolvedSoftware.of(Software()))


def layer(experts: int, gather: Collective = GATHER) -> Segments:
    """Weights for the next layer, a multiplication, and tokens for experts, which it waits for."""
    tokens = Collective("all-to-all", 6e7, Group("ep", experts))
    multiply = Gemm(8192, 8192, 8192)
    ahead = (Wait(1, of="previous start"),)
    operations = (
        Operation("weights", gather, Cause.EXPOSED_GATHER, Stream.GATHER, ahead),
        Operation("mm", multiply, Cause.GEMM, after=(Wait(0),)),
        Operation("tokens", tokens, Cause.EXPOSED_EP, Stream.EXPERT, (Wait(1),)),
        Operation("mm", multiply, Cause.GEMM, after=(Wait(2),)),
    )
    return segments(Block("layer", operations), prices())


def seconds(block: Segments, stream: Stream) -> float:
    return sum(float(s.seconds) for s in block.segments if s.stream is stream)


def test_weights_share_the_nics_with_tokens_for_experts_on_other_nodes():
    alone = float(prices().seconds(GATHER))
    block = layer(experts=64)
    assert seconds(block, Stream.GATHER) == pytest.approx(alone + seconds(block, Stream.EXPERT))


def test_tokens_inside_a_node_need_no_nic():
    assert seconds(layer(experts=8), Stream.GATHER) == pytest.approx(prices().seconds(GATHER))


def test_the_steps_of_a_ring_are_not_hidden():
    """They are waited for whole; of the rest of the time beside it computation loses a share."""
    steps_s = float(prices().ring_start_s(GATHER))
    assert steps_s > 0
    for gather, lost_s in (
        (GATHER, steps_s),
        (Collective("all-gather", 4e8, Group("shard", 8)), 0.0),
    ):
        beside_s = float(prices().seconds(gather)) * FIT.network.contention
        found = layer(experts=8, gather=gather)
        assert found.own[Cause.CONTENTION] == pytest.approx(beside_s)
        assert found.own[Cause.EXPOSED_GATHER] == pytest.approx(lost_s)
        assert seconds(found, Stream.COMPUTE) == pytest.approx(float(found.own.total))
