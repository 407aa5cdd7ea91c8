"""Links and kernels: iperf3, perftest and results of `syncwall measure`, read and judged."""

import pytest

import syncwall as sw
from syncwall.cost.calibration import calibration
from syncwall.cost.compute import gemm_alone_seconds
from syncwall.measure.kernel_times import KernelRow, TimedKernel
from syncwall.problems import InputError
from syncwall.read.link_rates import read_iperf3, read_perftest
from syncwall.work.operations import Gemm
from tests.explain.benchmarks.samples import IPERF3, iperf3_json, perftest, result


def test_text_and_json_of_iperf3_are_read(tmp_path):
    path = tmp_path / "one"
    path.write_text(IPERF3 + IPERF3)
    first, second = read_iperf3(path)
    assert first == second
    assert first.bytes_per_s * 8e-9 == pytest.approx(12.3)
    assert first.streams == 2
    path.write_text(iperf3_json(94.0))
    (one,) = read_iperf3(path)
    assert one.bytes_per_s * 8e-9 == pytest.approx(94)
    assert (one.streams, one.remote) == (8, "10.0.0.2")


@pytest.mark.parametrize("unit", ["Gb", "MB"])
def test_perftest_is_read_in_its_units(tmp_path, unit):
    path = tmp_path / "one"
    path.write_text(perftest(392.1, unit=unit))
    (one,) = read_perftest(path)
    assert one.bytes_per_s * 8e-9 == pytest.approx(392.1, rel=1e-4)
    assert (one.device, one.streams, one.tool) == ("mlx5_0", 2, "perftest Write")


def test_outputs_without_results_are_refused(tmp_path):
    path = tmp_path / "one"
    path.write_text("[  5] local a port 1 connected to b port 2\niperf3: error - unable to connect")
    with pytest.raises(InputError, match="no result"):
        read_iperf3(path)
    path.write_text(" #bytes  BW average[Gb/sec]\n")
    with pytest.raises(InputError, match="no rows"):
        read_perftest(path)


@pytest.mark.parametrize(("reached", "bad"), [(392.0, False), (196.0, True)])
def test_an_adapter_at_half_rate_is_wrong(tmp_path, reached, bad):
    path = tmp_path / "ib.txt"
    path.write_text(perftest(reached))
    found = sw.explain(path, cluster="dgx-h100")
    assert found.is_bad is bad
    if bad:
        assert "mlx5_0 reaches 196 Gb/s of 400 Gb/s" in found.findings[0].what
        assert "half" in found.findings[0].why


def test_one_tcp_stream_need_not_fill_the_line(tmp_path):
    path = tmp_path / "iperf.json"
    path.write_text(iperf3_json(22.0, streams=1))
    assert not sw.explain(path, cluster="dgx-h100").is_bad
    path.write_text(iperf3_json(22.0, streams=16))
    assert sw.explain(path, cluster="dgx-h100").is_bad


def test_lost_packets_are_a_suspect(tmp_path):
    path = tmp_path / "iperf.json"
    path.write_text(iperf3_json(380.0, streams=32, again=500_000))
    found = sw.explain(path, cluster="dgx-h100")
    assert "sent again" in found.findings[0].what


def test_the_slow_one_of_several_is_named_without_a_machine(tmp_path):
    for number, rate in enumerate((391.0, 392.0, 390.0, 200.0)):
        (tmp_path / f"ib{number}.txt").write_text(perftest(rate, device=f"mlx5_{number}"))
    found = sw.explain(tmp_path)
    assert found.is_bad
    assert found.findings[0].what.startswith("mlx5_3 reaches 200 Gb/s")


def test_the_suspects_of_measure_links_are_wrong(tmp_path):
    suspect = {
        "host": "b",
        "ranks": [3],
        "where": "between hosts",
        "way": "sending",
        "ratio": 0.4,
        "sure": 1.0,
        "slower": 9,
        "compared": 9,
        "what": "host b, rank 3: slow",
    }
    path = tmp_path / "links.json"
    path.write_text(result("links", {"rows": [], "suspects": [suspect]}))
    found = sw.explain(path)
    assert found.is_bad
    assert found.findings[0].what == "host b, rank 3: slow"


@pytest.mark.parametrize(("slower", "bad"), [(1.0, False), (1.5, True)])
def test_multiplications_of_a_throttled_device_are_slow(tmp_path, slower, bad):
    device = sw.cluster("dgx-h100").device
    shapes = [Gemm(m, 8192, k) for m in (4096, 8192, 16384) for k in (4096, 8192)]
    times = [float(gemm_alone_seconds(g, device, calibration(device).gemm)) for g in shapes]
    rows = [
        KernelRow.of(TimedKernel("gemm", shape, 2), [slower * took] * 5).model_dump(mode="json")
        for shape, took in zip(shapes, times, strict=True)
    ]
    path = tmp_path / "matmul.json"
    path.write_text(result("matmul", {"rows": rows}))
    found = sw.explain(path, cluster="dgx-h100")
    assert found.is_bad is bad
    assert found.benchmarks.gemms[0].ratio == pytest.approx(slower, rel=1e-6)


def test_a_damaged_result_is_refused(tmp_path):
    path = tmp_path / "links.json"
    path.write_text(result("links", {"rows": [{"source": 1}]}))
    with pytest.raises(InputError, match="not a whole result"):
        sw.explain(path)
