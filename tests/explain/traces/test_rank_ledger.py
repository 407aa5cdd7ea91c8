"""The ledger of a trace: every microsecond has one cause, and the right one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.explain.traces.rank import _within_a_step, rank_ledger
from syncwall.read.kineto import read_trace
from tests.explain.traces.breakdown import breakdown_of
from tests.read.traces import MEASURED, event, launched, needs_traces, step, written

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def ledger(tmp_path, events, **more):
    return rank_ledger(read_trace(written(tmp_path / "t.json", events)), **more)


def us(found):
    return {cause: round(s * 1e6, 3) for cause, s in found.ledger.items()}


def test_computation_hides_communication(tmp_path):
    found = ledger(
        tmp_path,
        [
            step(1, 0, 300),
            *launched("volta_sgemm", 0, 0, 100, 1),
            *launched(NCCL, 10, 50, 150, 2, stream=9),
            *launched("vectorized_elementwise_kernel", 20, 200, 100, 3),
        ],
    )
    assert us(found) == {"GEMM": 100, "exposed all-reduce": 100, "elementwise": 100}
    assert found.hidden["all-reduce"] == pytest.approx(50e-6)
    (channel,) = found.communication
    assert (channel.kind, channel.calls, channel.bytes) == ("all-reduce", 1, None)
    assert channel.exposed_s == pytest.approx(100e-6)


def test_waiting_for_a_peer_is_taken_from_what_is_exposed(tmp_path):
    events = [
        step(1, 0, 300),
        *launched("volta_sgemm", 0, 0, 100, 1),
        *launched(NCCL, 10, 50, 250, 2, stream=9),
    ]
    waits = (np.array([50_000]), np.array([220_000]))
    found = ledger(tmp_path, events, peer_waits=waits)
    assert us(found) == {"GEMM": 100, "idle: peer": 120, "exposed all-reduce": 80}


def test_reasons_of_idleness(tmp_path):
    """Late launch, data loader, synchronisation, queued kernels, and a gap nobody explains."""
    events = [
        step(1, 0, 2000),
        *launched("gemm", 0, 0, 100, 1),
        *launched("gemm", 390, 400, 100, 2),  # 300 us late, nothing else going on
        event(
            "user_annotation",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            520,
            270,
        ),
        *launched("gemm", 795, 800, 100, 3),  # 300 us, of which 270 in the data loader
        event("cuda_runtime", "cudaStreamSynchronize", 850, 60),
        *launched("gemm", 1095, 1100, 100, 4),  # 200 us after a synchronisation
        *launched("gemm", 1100, 1204, 96, 5),  # 4 us, was queued
        *launched("gemm", 1105, 1600, 400, 6),  # 300 us, was queued: why?
    ]
    assert us(ledger(tmp_path, events)) == {
        "GEMM": 896,
        "idle: host": 330,
        "idle: data": 270,
        "idle: sync": 200,
        "idle: between kernels": 4,
        "unexplained": 300,
    }


def test_kernels_that_the_optimizer_launched_are_its_own(tmp_path):
    found = ledger(
        tmp_path,
        [
            step(1, 0, 100),
            event("user_annotation", "Optimizer.step#Adam.step", 40, 30),
            *launched("vectorized_elementwise_kernel", 0, 0, 50, 1),
            *launched("vectorized_elementwise_kernel", 45, 50, 50, 2),
        ],
    )
    assert us(found) == {"elementwise": 50, "optimizer": 50}


def test_a_trace_without_a_device_counts_the_operators(tmp_path):
    """As torch writes it for Gloo: the collective is an event of its own beside the operators."""
    found = ledger(
        tmp_path,
        [
            step(1, 0, 1000),
            event(
                "user_annotation",
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                0,
                100,
            ),
            event("cpu_op", "aten::stack", 10, 50),
            event("cpu_op", "aten::linear", 100, 200),
            event("cpu_op", "aten::addmm", 110, 180),
            event("cpu_op", "aten::scaled_dot_product_attention", 300, 50),
            event("cpu_op", "aten::bmm", 310, 20),
            event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 400, 120, tid=2),
            event("cpu_op", "aten::mm", 400, 100, tid=2),
            event("cpu_op", "c10d::allreduce_", 500, 5, tid=2),
            event("user_annotation", "gloo:all_reduce", 450, 250, tid=3),
            event("user_annotation", "Optimizer.step#SGD.step", 700, 100),
            event("cpu_op", "aten::_foreach_add_", 710, 50),
        ],
    )
    assert not found.on_device
    assert us(found) == {
        "idle: data": 100,
        "GEMM": 300,
        "attention": 50,
        "optimizer": 100,
        "exposed all-reduce": 200,
        "idle: host": 250,
    }
    assert found.hidden["all-reduce"] == pytest.approx(50e-6)


kernels = st.lists(
    st.tuples(
        st.sampled_from(["volta_sgemm", "flash_fwd", NCCL, "Memcpy HtoD", "void odd"]),
        st.integers(0, 900),
        st.integers(0, 200),
        st.integers(0, 50),
        st.sampled_from([7, 9]),
    ),
    min_size=1,
    max_size=25,
)


@given(kernels=kernels, cuts=st.lists(st.integers(1, 999), max_size=3, unique=True).map(sorted))
def test_the_ledger_adds_up_to_the_steps(tmp_path_factory, kernels, cuts):
    edges = [0, *cuts, 1000]
    events = [step(i, a, b - a) for i, (a, b) in enumerate(pairwise(edges))]
    for number, (name, start, length, lag, stream) in enumerate(kernels, 1):
        events += launched(name, start - lag, start, length, number, stream=stream)
    found = ledger(tmp_path_factory.mktemp("t"), events)
    lengths = np.array([s.end_ns - s.start_ns for s in found.steps]) / 1e9
    assert np.allclose(found.by_step.total, lengths, rtol=0, atol=1e-12)
    assert found.step_s == pytest.approx(lengths.mean(), abs=1e-12)
    assert all(np.all(s >= 0) for _, s in found.by_step.items())


def test_parts_of_the_whole_trace(tmp_path):
    trace = read_trace(
        written(
            tmp_path / "t.json",
            [
                *launched("volta_sgemm", 0, 0, 100, 1),
                *launched(NCCL, 10, 50, 150, 2, stream=9),
                *launched("Memcpy HtoD", 20, 250, 50, 3, cat="gpu_memcpy"),
            ],
        )
    )
    parts = breakdown_of(trace)
    assert parts is not None
    assert parts.total_s == pytest.approx(300e-6)
    assert parts.idle_s == pytest.approx(50e-6)
    assert parts.compute_s == pytest.approx(100e-6)
    assert parts.non_compute_s == pytest.approx(150e-6)
    assert parts.overlap == pytest.approx(50 / 150)


@needs_traces
def test_the_data_loader_is_what_slows_the_sample_without_workers():
    """Kineto's own pair of samples: ResNet-50 with its data loaded in the process, and by four
    workers; only in the first the device waits for data."""
    slow, fast = (
        rank_ledger(read_trace(MEASURED / f"kineto_v100_resnet50_workers{n}.json.gz")) for n in (0, 4)
    )
    assert slow.ledger["idle: data"] > 0.15 * slow.step_s
    assert fast.ledger["idle: data"] < 0.05 * fast.step_s
    assert fast.step_s < slow.step_s


@needs_traces
def test_deepseek_hides_most_of_its_communication():
    """DualPipe is built to hide the exchange of tokens behind computation."""
    found = rank_ledger(read_trace(MEASURED / "deepseek_h800_dualpipe_train_rank0of64.json.gz"))
    assert found.hidden["all-to-all"] > 10 * found.ledger["exposed all-to-all"]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=8),
    st.lists(st.integers(-5, 70), max_size=20),
)
def test_times_within_a_step_are_those_of_any_step(steps, times):
    start, end = np.array([(begin, begin + length) for begin, length in steps]).T
    told = _within_a_step(np.array(times, dtype=int), start, end)
    assert told.tolist() == [any(a <= t < b for a, b in zip(start, end, strict=True)) for t in times]
