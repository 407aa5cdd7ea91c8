import time
from typing import Any, Literal

import numpy as np
import pytest

from syncwall.cause import Cause
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.cost.prices import Prices
from syncwall.describe import Software
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import Segment, Segments, segments
from syncwall.timeline.streams import Clock, Record
from syncwall.work.block import Block, Operation, Stream, Wait
from syncwall.work.operations import Collective, Gemm, Group
from tests.describe.samples import cluster


def layer(compute: Any, gather: Any, *, ahead: bool = True) -> Segments:
    """A layer that gathers its weights, one layer ahead or not."""
    of: Literal["previous start", "computed"] = "previous start" if ahead else "computed"
    return Segments(
        [
            Segment(Stream.GATHER, Cause.EXPOSED_GATHER, gather, (Wait(1, of=of),), []),
            Segment(Stream.COMPUTE, Cause.GEMM, compute, (Wait(0),), []),
        ],
        Ledger({Cause.GEMM: compute}),
    )


def finished(block: Segments, rounds: float) -> tuple[float, Clock]:
    clock = Clock()
    clock.run(block, rounds)
    return float(clock.join()), clock


@pytest.mark.parametrize(
    ("compute", "gather", "ahead", "expected"),
    [
        (3.0, 1.0, True, 1 + 10 * 3),  # only the first gather is seen
        (1.0, 3.0, True, 10 * 3 + 1),  # the wire sets the pace
        (3.0, 1.0, False, 10 * 4),  # nothing overlaps
        (2.0, 2.0, True, 2 + 10 * 2),
    ],
)
def test_prefetch_hides_what_it_can(compute, gather, ahead, expected):
    end, clock = finished(layer(compute, gather, ahead=ahead), 10)
    assert end == pytest.approx(expected)
    assert clock.ledger.total == pytest.approx(end)
    assert clock.ledger[Cause.GEMM] == pytest.approx(10 * compute)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 7, 126])
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(("compute", "gather"), [(3.0, 1.0), (1.0, 3.0), (1.0, 1.0)])
def test_three_rounds_tell_all(rounds, ahead, compute, gather):
    block = layer(compute, gather, ahead=ahead)
    short, _ = finished(block, rounds)
    whole = Clock(record=Record())
    whole.run(block, rounds)
    assert short == pytest.approx(float(whole.join()))


def test_arrays_of_rounds_and_times_agree_with_single_ones():
    compute, gather = np.array([3.0, 1.0, 1.0]), np.array([1.0, 3.0, 0.5])
    rounds = np.array([1, 5, 126])
    clock = Clock()
    clock.run(layer(compute, gather), rounds)
    together = clock.join()
    singly = [finished(layer(c, g), r)[0] for c, g, r in zip(compute, gather, rounds, strict=True)]
    np.testing.assert_allclose(together, singly)


def test_a_captured_program_of_fifty_thousand_operations_is_one_block():
    """Whoever wrote it: multiplications, and an all-reduce behind every tenth."""
    machine = cluster(nodes=4)
    fit = calibration(machine.device)
    network = NcclNetwork(machine, fit.network)
    prices = Prices(machine.device, network, fit, ResolvedSoftware.of(Software()))
    multiply = Operation("mm", Gemm(4096, 4096, 4096), Cause.GEMM)
    send = Collective("all-reduce", 25e6, Group("dp", machine.gpus))
    operations = [
        multiply if i % 10 else Operation("ar", send, Cause.EXPOSED_DP, Stream.REDUCE, (Wait(i - 2),))
        for i in range(1, 50_001)
    ]
    start = time.process_time()
    end, clock = finished(segments(Block("program", tuple(operations)), prices), 1)
    assert time.process_time() - start < 10
    assert clock.ledger.total == pytest.approx(end)
    assert clock.ledger["GEMM"] == pytest.approx(45_000 * float(prices.seconds(multiply.what)))


def test_part_of_a_collective_can_be_waited_for():
    half = Segments(
        [
            Segment(Stream.COMPUTE, Cause.GEMM, 1.0, (), []),
            Segment(Stream.TENSOR, Cause.EXPOSED_TP, 2.0, (Wait(0),), []),
            Segment(Stream.COMPUTE, Cause.GEMM, 1.0, (Wait(1, share=0.5),), []),
        ],
        Ledger({Cause.GEMM: 2.0}),
    )
    end, clock = finished(half, 1)
    assert end == pytest.approx(3.0)
    assert clock.ledger["exposed TP"] == pytest.approx(1.0)


def leaving(compute: float, reduce: float) -> Segments:
    """A layer that sends its gradients when it is done."""
    return Segments(
        [
            Segment(Stream.COMPUTE, Cause.GEMM, compute, (), []),
            Segment(Stream.REDUCE, Cause.EXPOSED_DP, reduce, (Wait(0),), []),
        ],
        Ledger({Cause.GEMM: compute}),
    )


@pytest.mark.parametrize(
    ("reduce", "alone", "followed"),
    [(1.0, 10 * 3 + 1, 10 * 3), (5.0, 3 + 10 * 5, 10 * 5)],
)
def test_what_is_still_on_its_way_moves_beside_the_next_micro_batch(reduce, alone, followed):
    assert finished(leaving(3.0, reduce), 10)[0] == pytest.approx(alone)
    clock = Clock()
    clock.run(leaving(3.0, reduce), 10)
    clock.next_micro_batch()
    assert clock.ledger.total == pytest.approx(followed)


def test_a_backlog_is_worked_off():
    clock = Clock()
    clock.run(leaving(1.0, 20.0), 1)
    clock.run(leaving(3.0, 1.0), 10)
    assert float(clock.join()) == pytest.approx(1 + 30 + 1)


@pytest.mark.parametrize(
    ("compute", "reduce", "earlier", "expected"),
    [
        (10.0, 14.0, 3.0, 11.0),  # it began 3 earlier
        (10.0, 14.0, 30.0, 10.0),  # but cannot end before computation
        (10.0, 8.0, 3.0, 8.0),  # what has ended has ended
        (10.0, 14.0, 0.0, 14.0),
    ],
)
def test_a_stream_can_hurry_but_not_overtake_computation(compute, reduce, earlier, expected):
    clock = Clock()
    clock.free |= {Stream.COMPUTE: compute, Stream.REDUCE: reduce}
    clock.move_earlier(Stream.REDUCE, earlier)
    assert float(clock.free[Stream.REDUCE]) == expected
    assert clock.free[Stream.COMPUTE] == compute
    assert float(clock.join()) == max(compute, expected)


def test_hurrying_broadcasts():
    clock = Clock()
    clock.free |= {Stream.COMPUTE: np.array([1.0, 9.0]), Stream.REDUCE: np.array([5.0, 10.0])}
    clock.move_earlier(Stream.REDUCE, np.array([2.0, 4.0]))
    assert np.asarray(clock.free[Stream.REDUCE]).tolist() == [3.0, 9.0]


def test_weights_have_come_before_the_last_computation_whatever_was_behind():
    """A backlog of gradients delays the second round; the third must not repeat that for ever."""
    block = Segments(
        [
            Segment(Stream.GATHER, Cause.EXPOSED_GATHER, 0.1, (Wait(1, of="previous start"),), []),
            Segment(Stream.COMPUTE, Cause.GEMM, 1.0, (Wait(0),), []),
            Segment(Stream.REDUCE, Cause.EXPOSED_DP, 0.5, (Wait(1),), []),
        ],
        Ledger({Cause.GEMM: 1.0}),
        awaited=(Wait(2),),
    )
    short, whole = Clock(), Clock(record=Record())
    for clock in (short, whole):
        clock.free[Stream.REDUCE] = 20.0
        clock.run(block, 30)
    assert short.free[Stream.GATHER] <= short.free[Stream.COMPUTE] - 1.0
    assert float(short.join()) == pytest.approx(float(whole.join()))


def test_the_first_exchange_of_a_block_waits_for_what_was_computed():
    block = Segments(
        [
            Segment(Stream.TENSOR, Cause.EXPOSED_TP, 1.0, (), []),
            Segment(Stream.COMPUTE, Cause.GEMM, 2.0, (Wait(0),), []),
        ],
        Ledger({Cause.GEMM: 2.0}),
    )
    end, clock = finished(block, 10)
    assert end == pytest.approx(30)
    assert clock.ledger["exposed TP"] == pytest.approx(10)
