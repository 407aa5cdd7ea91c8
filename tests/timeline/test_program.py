"""Programs of a few calls, whose times are computed by hand; laws for random ones."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.answer.pricing import Pricing
from syncwall.cause import Cause
from syncwall.describe import lookup
from syncwall.timeline.program_replay import program_time
from syncwall.work.block import StepPhase
from syncwall.work.operations import Collective, Elementwise, Gemm, Group, Message
from syncwall.work.program import Call, Program, RankProgram

SHARD = Group("shard", 16, 1)
CLUSTER = lookup.cluster("dgx-h100").using(2, 8)


def prices(**changes):
    """Of two nodes; hosts take no time, and nothing that runs beside slows anything down."""
    found = Pricing.on(CLUSTER).prices(CLUSTER)
    found.host_kernel_s = found.host_wait_s = found.host_step_s = 0.0
    network = found.fit.network.model_copy(update={"contention": 0.0})
    ranks = found.fit.ranks.model_copy(update={"jitter": 0.0})
    found.fit = found.fit.model_copy(update={"network": network, "ranks": ranks})
    setattr(found, "ring_start_s", lambda what: 0.0)  # noqa: B010 - mypy takes it for a method
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def kernel(seconds, **more):
    """A copy that takes `seconds`."""
    device, fit = CLUSTER.device, Pricing.on(CLUSTER).fit.elementwise
    moved = (seconds - fit.launch_s) * device.memory.rate_bytes_per_s * fit.efficiency
    return Call("aten.add", Elementwise(moved, is_fused=True), **more)


def gather(megabytes=100.0, **more):
    return Call("gather", Collective("all-gather", megabytes * 1e6, SHARD), "nccl", **more)


def program(*calls, world_size=16):
    return Program(world_size, (RankProgram(0, world_size, tuple(calls)),))


def test_kernels_of_a_stream_run_one_after_the_other():
    found = program_time(program(kernel(1.0), kernel(2.0), kernel(3.0)), prices())
    assert found.step_s == pytest.approx(6.0)
    assert dict(found.ledger.without_zeros()) == pytest.approx({Cause.ELEMENTWISE: 6.0})
    assert [one.start_s for one in found.intervals] == pytest.approx([0.0, 1.0, 3.0])
    assert [one.end_s for one in found.intervals] == pytest.approx([1.0, 3.0, 6.0])


def test_what_is_waited_for_is_booked_on_what_is_late():
    own = prices()
    gather_s = float(own.seconds(gather().what))
    found = program_time(program(gather(), kernel(0.5 * gather_s), kernel(1.0, after=(0,))), own)
    assert found.step_s == pytest.approx(gather_s + 1.0)
    assert found.ledger[Cause.EXPOSED_GATHER] == pytest.approx(0.5 * gather_s)
    assert [wait.cause for wait in found.waits] == [Cause.EXPOSED_GATHER]


def test_a_gather_beside_computation_is_hidden():
    found = program_time(program(gather(), kernel(1.0), kernel(1.0, after=(0,))), prices())
    assert found.step_s == pytest.approx(2.0)
    assert not found.waits


def test_collectives_on_the_same_wires_share_them():
    own = prices()
    other = replace(gather(), stream="nccl 2")
    once = float(own.seconds(gather().what))
    both = program_time(program(gather(), other, kernel(1e-3, after=(0, 1))), own)
    assert both.step_s == pytest.approx(2 * once + 1e-3, rel=1e-6)


def test_inside_and_outside_of_a_node_are_different_wires():
    own = prices()
    near = Call("tp", Collective("all-reduce", 1e8, Group("tp", 8, 1)), "nccl tp")
    times = [float(own.seconds(call.what)) for call in (gather(), near)]
    both = program_time(program(gather(), near, kernel(1e-3, after=(0, 1))), own)
    assert both.step_s == pytest.approx(max(times) + 1e-3, rel=1e-6)


def test_hours_on_a_slow_wire_end():
    """Where the clock is so late that what is left to do vanishes beside it."""
    calls = [c for i in range(30) for c in (gather(1e9 / 7), kernel(1e-6 / 3, after=(2 * i,)))]
    found = program_time(program(*calls), prices())
    assert found.step_s > 1e4
    assert found.ledger.total == pytest.approx(found.step_s)


def test_two_kernels_share_the_device():
    side = kernel(1.0, stream="copy")
    found = program_time(program(side, kernel(1.0)), prices())
    assert found.step_s == pytest.approx(2.0)
    assert found.ledger.total == pytest.approx(2.0)


def test_communication_slows_computation_beside_it():
    own = prices()
    network = own.fit.network.model_copy(update={"contention": 0.1})
    own.fit = own.fit.model_copy(update={"network": network})
    moving_s = float(own.seconds(gather().what))
    found = program_time(program(gather(), kernel(1.0)), own)
    assert found.step_s == pytest.approx(1.0 + 0.1 * moving_s)
    assert found.ledger[Cause.CONTENTION] == pytest.approx(0.1 * moving_s)


def test_a_slow_host_is_waited_for():
    found = program_time(program(*[kernel(1e-3)] * 10), prices(host_kernel_s=2e-3))
    assert found.step_s == pytest.approx(10 * 2e-3 + 1e-3)
    assert found.ledger[Cause.HOST] == pytest.approx(found.step_s - 10e-3)


def test_a_host_that_reads_a_number_issues_nothing_meanwhile():
    item = Call("aten.item", None, after=(0,), host_waits=True)
    own = prices(host_wait_s=0.25)
    found = program_time(program(kernel(1.0), item, kernel(1.0)), own)
    assert found.step_s == pytest.approx(2.25)
    assert found.ledger[Cause.HOST] == pytest.approx(0.25)
    ahead = program_time(program(kernel(1.0), kernel(1.0)), own)
    assert ahead.step_s == pytest.approx(2.0)


def test_a_message_starts_when_both_sides_are_there():
    own = prices()
    message = Message(1e8, 0, 8)
    message_s = float(own.seconds(message))
    first = RankProgram(0, 8, (kernel(1.0), Call("send", message, "pp", after=(0,))))
    second = RankProgram(8, 8, (Call("recv", message, "pp"), kernel(2.0, after=(0,))))
    found = program_time(Program(16, (first, second)), own)
    assert found.rank is second
    assert found.step_s == pytest.approx(3.0 + message_s)
    assert found.ledger[Cause.BUBBLE] == pytest.approx(1.0)
    assert found.ledger[Cause.EXPOSED_PP] == pytest.approx(message_s)


def test_ranks_that_wait_for_each_other_are_named():
    one, other = Message(1e6, 0, 8), Message(1e6, 8, 0)
    first = RankProgram(0, 8, (Call("recv", other, "pp"), Call("send", one, "pp", after=(0,))))
    second = RankProgram(8, 8, (Call("recv", one, "pp"), Call("send", other, "pp", after=(0,))))
    with pytest.raises(ValueError, match="rank 0 waits forever for send"):
        program_time(Program(16, (first, second)), prices())


def test_a_message_that_nobody_takes_is_named():
    itself = Call("send", Message(1.0, 0, 0), "messages")
    with pytest.raises(ValueError, match="rank 0 waits forever for send"):
        program_time(program(itself), prices())


def test_recomputation_and_the_optimizer_have_their_lines():
    calls = (kernel(1.0, phase=StepPhase.RECOMPUTE), kernel(2.0, phase=StepPhase.FINISH))
    found = program_time(program(*calls), prices())
    assert found.ledger[Cause.RECOMPUTE] == pytest.approx(1.0)
    assert found.ledger[Cause.OPTIMIZER] == pytest.approx(2.0)


@st.composite
def programs(draw, kinds=("kernel", "gemm", "gather", "side", "item")):
    """Calls on a few streams, each waiting for some earlier ones."""
    calls = []
    for index in range(draw(st.integers(1, 25))):
        earlier = st.integers(0, index - 1) if index else st.nothing()
        after = tuple(sorted(draw(st.sets(earlier, max_size=3)))) if index else ()
        kind = draw(st.sampled_from(kinds))
        seconds = draw(st.floats(1e-5, 1.0))
        calls.append(
            {
                "kernel": kernel(seconds, after=after),
                "gemm": Call("mm", Gemm(4096, 4096, 4096), after=after),
                "gather": gather(seconds * 1000, after=after),
                "side": kernel(seconds, stream="side", after=after),
                "item": Call("item", None, after=after, host_waits=True),
            }[kind]
        )
    if all(call.what is None for call in calls):
        calls.append(kernel(1.0))
    return program(*calls)


@given(programs())
@settings(max_examples=60, deadline=None)
def test_the_ledger_adds_up_to_the_step_and_streams_never_overlap(made):
    own = Pricing.on(CLUSTER).prices(CLUSTER)
    found = program_time(made, own)
    assert found.ledger.total == pytest.approx(found.step_s)
    assert min(found.ledger.values()) >= -1e-12
    ran = sum(call.what is not None for call in made.ranks[0])
    assert len(found.intervals) == ran
    last: dict[str, float] = {}
    for one in sorted(found.intervals, key=lambda one: one.start_s):
        assert one.start_s >= last.get(one.stream, 0.0) - 1e-9
        last[one.stream] = one.end_s


@given(programs(("kernel", "gemm", "gather", "item")), st.floats(1.0, 4.0))
@settings(max_examples=40, deadline=None)
def test_a_slower_network_never_makes_a_program_faster(made, times):
    """Where nothing shares a device or wires: else who comes later may let others go first."""
    before = program_time(made, prices()).step_s
    slower = prices()
    usual = slower.seconds
    slower.seconds = lambda what: usual(what) * (times if isinstance(what, Collective) else 1.0)
    assert program_time(made, slower).step_s >= before * (1 - 1e-9)
