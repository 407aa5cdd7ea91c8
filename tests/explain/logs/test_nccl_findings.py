"""Findings from logs that we wrote, one fault each."""

from pathlib import Path

import pytest

import syncwall as sw
from syncwall.describe import Layout, Run
from syncwall.explain.logs import nccl_findings
from syncwall.read.nccl_log import read_nccl_log
from tests.read.nccl_samples import nccl_log

HEAD = "node0:100:200 [0] NCCL INFO "


@pytest.fixture
def found(tmp_path):
    def look(price=None, **changes):
        path = tmp_path / "nccl.log"
        path.write_text(nccl_log(**changes))
        return nccl_findings(read_nccl_log(path), price)

    return look


def test_a_healthy_log_has_no_findings(found):
    assert found() == ()


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        ({"net": "NET/Socket", "gdr": False}, "wrong", "although mlx5_0, mlx5_1 exist"),
        ({"net": "NET/Socket", "gdr": False, "nics": 0}, "suspect", "TCP sockets between nodes"),
        (
            {
                "net": "NET/Socket",
                "gdr": False,
                "nics": 0,
                "extra": HEAD + "NET/Socket : Using [0]docker0:172.17.0.1<0>",
            },
            "wrong",
            "docker0",
        ),
        ({"gdr": False}, "suspect", "8 of 8 network connections have no GPUDirect RDMA"),
        ({"gpus": 4, "nics": 4, "used": 1}, "suspect", "1 of 4 network devices are used"),
        ({"gpus": 8, "nics": 8, "used": 8}, "suspect", "4 channels for 8 network devices"),
        ({"intra": "SHM/direct/direct"}, "wrong", "through host memory (SHM)"),
        ({"extra": HEAD + "NCCL_ALGO set by environment to RING"}, "suspect", "NCCL_ALGO=RING"),
        ({"extra": HEAD + "NCCL_PROTO set by environment to LL"}, "suspect", "NCCL_PROTO=LL"),
        ({"extra": HEAD + "NCCL_P2P_DISABLE set by environment to 1."}, "wrong", "P2P_DISABLE=1"),
        ({"extra": HEAD + "NCCL_NVLS_ENABLE set by environment to 0."}, "suspect", "NVLS_ENABLE=0"),
        ({"extra": "0: CUDA_LAUNCH_BLOCKING=1"}, "wrong", "CUDA_LAUNCH_BLOCKING=1"),
        ({"extra": HEAD + "NVLS multicast support is not available on dev 0"}, "note", "multicast"),
        ({"extra": HEAD.replace("INFO", "WARN") + "no route"}, "suspect", "no route"),
        (
            {"extra": HEAD + "comm 0x1 rank 0 nranks 2 cudaDev 0 commId 0x2 - Init START"},
            "wrong",
            "1 of 1 ranks did not finish",
        ),
        ({"extra": "Watchdog caught collective operation timeout: x"}, "wrong", "timeout"),
        ({"link": "IB/SHARP"}, "note", "SHARP"),
    ],
)
def test_each_fault_is_found_and_alone(found, changes, severity, text):
    findings = found(**changes)
    assert [f.severity for f in findings if text in f.what] == [severity]
    assert len(findings) == 1 or "docker0" in text
    assert findings[0].why
    assert findings[0].next
    assert "nccl.log" in findings[0].where


def test_where_points_at_the_line(found):
    (finding,) = found(gdr=False)
    path, _, line = finding.where.rpartition(":")
    assert "via NET/IB/0" in Path(path).read_text().splitlines()[int(line) - 1]


def test_the_price_is_asked_for_each_finding(found):
    asked = []

    def price(key, log):
        asked.append(key)
        return 1.5 if key == "rails" else None

    findings = found(price, gpus=4, nics=4, used=1, gdr=False)
    assert sorted(asked) == ["gdr-off", "rails"]
    assert [f.slowdown for f in findings] == [1.5, None]


def test_a_known_run_prices_idle_adapters_sockets_and_shared_memory(tmp_path):
    run = Run(
        model=sw.model("llama-3.1-8b"),
        cluster=sw.cluster("dgx-h100", nodes=4),
        layout=Layout(shard="ddp", tp=8, micro_batch=1),
        seq=4096,
    )
    path = tmp_path / "nccl.log"
    costs = []
    for changes in (
        {"gpus": 4, "nics": 4, "used": 2},
        {"gpus": 4, "nics": 4, "used": 1},
        {"net": "NET/Socket", "gdr": False},
        {"intra": "SHM/direct/direct"},
        {"gdr": False},
    ):
        path.write_text(nccl_log(**changes))
        (finding,) = nccl_findings(read_nccl_log(path), run=run)
        costs.append(finding.slowdown)
    half, quarter, socket, shared, unknown = costs
    assert half is not None
    assert quarter is not None
    assert 1 < half < quarter
    assert socket is not None
    assert socket > 1
    assert shared is not None
    assert shared > 1
    assert unknown is None
