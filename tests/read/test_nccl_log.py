"""What is read from a NCCL log that we wrote."""

import gzip

import pytest

from syncwall.problems import InputError
from syncwall.read.nccl_log import read_nccl_log
from tests.read.nccl_samples import nccl_log


@pytest.fixture
def read(tmp_path):
    def reader(text: str):
        path = tmp_path / "nccl.log"
        path.write_text(text)
        return read_nccl_log(path)

    return reader


def test_ranks_hosts_and_channels_come_from_interleaved_lines(read):
    log = read(nccl_log(hosts=3, gpus=4))
    world = log.world
    assert (log.version, log.cuda, log.network, len(log.hosts), log.gpus) == ("2.21.5", "12.4", "IB", 3, 12)
    assert (world.ranks, world.nodes, world.local_ranks) == (12, 3, 4)
    assert (world.coll_channels, world.p2p_channels, world.rings, world.trees) == (4, 8, 4, 2)
    assert (world.started, world.complete, world.name) == (12, 12, "0xfeed")


def test_connections_say_transport_nic_and_gdr(read):
    log = read(nccl_log(nics=4, used=2))
    assert log.transports == {"P2P/CUMEM": 4, "NET/IB": 8}
    assert log.nics_used == {0: 4, 1: 4}
    assert [nic.name for nic in log.nics][-1] == "mlx5_3"
    assert log.gdr is True
    assert log.inter_node == "IB"
    assert read(nccl_log(gdr=False)).gdr is False


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("h:1:2 [0] NCCL INFO NCCL_ALGO set by environment to RING", "NCCL_ALGO", "RING"),
        ("h:1:2 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.", "NCCL_NVLS_ENABLE", "0"),
        (" 3: CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING", "1"),
        (
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
            "OMP_NUM_THREADS",
            "1",
        ),
    ],
)
def test_environment(read, line, name, value):
    assert read(nccl_log(extra=line)).environment[name].value == value


def test_two_messages_in_one_line_are_both_read(read):
    log = read("a:1:1 [0] NCCL INFO Using network IBb:1:1 [0] NCCL INFO hello")
    assert log.lines == 2


def test_warnings_are_counted_up_to_numbers_and_timeouts_kept(read):
    warn = "h:1:{} [0] net.cc:99 NCCL WARN Call to connect returned {} refused"
    dog = (
        "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600059 milliseconds"
    )
    log = read("\n".join([warn.format(1, 1), warn.format(2, 2), dog]))
    assert [(m.count, m.line) for m in log.warnings] == [(2, 1)]
    assert "SeqNum=7" in log.timeouts[0].text


def test_old_tuning_layout_and_numbered_selection(read):
    head = "h:1:2 [0] NCCL INFO "
    log = read(
        "\n".join(
            [
                head + "Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Ring/Simple |",
                head + "    AllReduce |   16.8/   0.5 |   31.0/   0.0 |   36.4/   2.4 |",
                head + "AllReduce: 1024 Bytes -> Algo 1 proto 0 time 25.2",
            ]
        )
    )
    entry = log.tuning[2]
    assert (entry.algorithm, entry.protocol, entry.latency_us, entry.gb_per_s) == (
        "Ring",
        "Simple",
        36.4,
        2.4,
    )
    chosen = log.selections[0]
    assert (chosen.algorithm, chosen.protocol, chosen.predicted_us) == ("RING", "LL", 25.2)


def test_a_cut_gzip_gives_what_came_before_and_says_so(tmp_path):
    path = tmp_path / "nccl.log.gz"
    whole = gzip.compress(nccl_log(hosts=16, gpus=8).encode())
    path.write_bytes(whole[: len(whole) * 2 // 3])
    log = read_nccl_log(path)
    assert log.problems
    assert 0 < log.lines < 16 * 8 * 9


def test_a_file_without_nccl_is_an_error(read):
    with pytest.raises(InputError, match="NCCL_DEBUG=INFO"):
        read("loss 1.0\nloss 0.9\n")
