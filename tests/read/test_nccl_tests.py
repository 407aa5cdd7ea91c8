"""nccl-tests as text and JSON, and the torch benchmark."""

import json

import pytest

from syncwall.problems import InputError
from syncwall.read.nccl_tests import read_nccl_tests
from tests.read.nccl_samples import NCCL_TESTS


def test_text_with_two_runs(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(NCCL_TESTS)
    reduce, gather = read_nccl_tests(path)
    assert (reduce.collective, reduce.version, reduce.ranks) == ("all_reduce", "2.17.8", 2)
    assert (reduce.threads, reduce.gpus_per_thread, reduce.nccl_version) == (1, 1, "2.19.3")
    assert reduce.devices[1].host == "nid010594"
    assert reduce.devices[1].name == "NVIDIA GH200 120GB"
    first, second = reduce.rows
    assert (first.size_bytes, first.count, first.dtype, first.redop, first.root) == (
        1024,
        256,
        "float",
        "sum",
        -1,
    )
    assert first.out_of_place is not None
    assert first.in_place is not None
    assert (first.out_of_place.time_us, first.in_place.busbw_gb_per_s) == (12.5, 0.09)
    assert second.out_of_place is not None
    assert (second.out_of_place.time_us, second.out_of_place.wrong) == (37622.3, None)
    assert second.in_place is not None
    assert second.in_place.time_us == 99999.0
    assert (reduce.average_busbw_gb_per_s, reduce.out_of_bounds) == (0.125, 0)
    assert (gather.collective, len(gather.rows), gather.average_busbw_gb_per_s) == ("all_gather", 1, 0.05)


@pytest.mark.parametrize(
    ("line", "root", "redop", "time_us", "wrong"),
    [
        (
            "1048576 262144 float sum 101.9 10.29 18.00 4e-07 101.4 10.34 18.10 4e-07",
            None,
            "sum",
            101.9,
            4e-7,
        ),
        ("1048576 262144 float 0 101.9 10.29 18.00 0 101.4 10.34 18.10 0", 0, "none", 101.9, 0),
        ("1048576 262144 float 180755 10.29 18.00 0 101.4 10.34 18.10 0", None, "none", 180755, 0),
        ("1048576 262144 float sum -1 101.9 10.29 18.00 101.4 10.34 18.10", -1, "sum", 101.9, None),
        ("1048576 262144 float none -1 101.9 10.29 18.00 0", -1, "none", 101.9, 0),
    ],
)
def test_columns_of_other_versions(tmp_path, line, root, redop, time_us, wrong):
    path = tmp_path / "out.txt"
    path.write_text(line)
    row = read_nccl_tests(path)[0].rows[0]
    assert row.out_of_place is not None
    assert (row.root, row.redop, row.out_of_place.time_us, row.out_of_place.wrong) == (
        root,
        redop,
        time_us,
        wrong,
    )


def test_json(tmp_path):
    path = tmp_path / "out.json"
    timing = {"time": 12.5, "alg_bw": 0.08, "bus_bw": 0.12, "nwrong": 0.0}
    path.write_text(
        json.dumps(
            {
                "version": 2,
                "args": ["./build/reduce_scatter_perf", "-b", "8"],
                "nccl_version": 22703,
                "env": ["NCCL_ALGO=Ring", "SECRET=x"],
                "config": {
                    "nthreads": 1,
                    "ngpus": 2,
                    "devices": [
                        {
                            "rank": 0,
                            "hostname": "a",
                            "device": 0,
                            "device_hex": "01:00",
                            "device_info": "H100",
                        }
                    ],
                },
                "results": [
                    {
                        "size": 1024,
                        "count": 256,
                        "type": "float",
                        "redop": "sum",
                        "root": "    -1",
                        "out_of_place": timing,
                        "in_place": None,
                    }
                ],
                "out_of_bounds": {"count": 0, "okay": "true"},
                "average_bus_bandwidth": {"bandwidth": 0.12, "okay": "unchecked"},
            }
        )
    )
    (run,) = read_nccl_tests(path)
    assert (run.collective, run.gpus_per_thread, run.devices[0].name) == ("reduce_scatter", 2, "H100")
    (row,) = run.rows
    assert row.out_of_place is not None
    assert (row.root, row.out_of_place.busbw_gb_per_s) == (-1, 0.12)
    assert (run.nccl_version, run.environment) == ("2.27.3", {"NCCL_ALGO": "Ring"})
    assert row.in_place is None
    assert run.average_busbw_gb_per_s == 0.12


def test_torch_bench_counts_bytes_once(tmp_path):
    """1 GB in 0.5 s on 4 ranks: algorithm 2 GB/s, bus 2 x 3/4 x 2 = 3 GB/s."""
    path = tmp_path / "bench.txt"
    rank = "{0} data size: 1.0 GB\n{0}:\n duration: 0.5000 sec\n"
    rate = " algo throughput: 32000000000.0 bps, 32.0000 Gbps\n busbw: 24.0000  Gbps\n"
    path.write_text("".join(rank.format(r) + rate for r in range(4)))
    (run,) = read_nccl_tests(path)
    timing = run.rows[0].out_of_place
    assert (run.ranks, run.rows[0].size_bytes) == (4, 10**9)
    assert timing is not None
    assert (timing.time_us, timing.algbw_gb_per_s, timing.busbw_gb_per_s) == (5e5, 2.0, 3.0)


@pytest.mark.parametrize("text", ["", "hello\n", "{}", '{"results": 3}', "{"])
def test_nothing_to_read_is_an_error(tmp_path, text):
    path = tmp_path / "out"
    path.write_text(text)
    with pytest.raises(InputError):
        read_nccl_tests(path)
