"""Single lines, as people copy them: without the head of a log, or below the header of a benchmark."""

import pytest

from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState
from syncwall.problems import InputError

HEADER = "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor)\n#\n# Using devices\n"
SHM = "shared memory too small"
HEAD = "node0:12:34 [0] "
LINES = {
    "NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 4194660 bytes": SHM,
    "NCCL WARN Call to posix_fallocate failed : No space left on device": SHM,
    "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size 64)": "NCCL system error",
    "OSError: [Errno 28] No space left on device: '/scratch/a'": "disk full",
    "NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129": "network error",
    "NCCL WARN Net : Call to send to 10.0.0.2<58355> failed : Broken pipe": "peer closed the connection",
    "NCCL WARN Cuda failure 'out of memory'": "GPU out of memory",
    "RuntimeError: CUDA error: invalid device ordinal": "driver or GPU missing",
    "subprocess.CalledProcessError: Command '['a']' died with <Signals.SIGKILL: 9>.": "killed",
    "  traceback : Signal 9 (SIGKILL) received by PID 12": "killed",
}
HARMLESS = (
    "yes | head: standard output: Broken pipe",
    "Unable to shutdown process 7 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
    "If you see CUDA out of memory, take a smaller batch",
    "NCCL INFO Connected all rings",
)


def of(tmp_path, text):
    path = tmp_path / "text"
    path.write_text(text)
    return explain([path])


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("before", ["", HEADER, HEAD, HEADER + HEAD], ids=["alone", "header", "log", "both"])
def test_a_line_is_known_wherever_it_stands(tmp_path, line, before):
    found = of(tmp_path, f"{before}{line}\n")
    assert found.failure.cause == LINES[line]
    assert found.state is VerdictState.WRONG
    assert found.failure.source.startswith("https://")


@pytest.mark.parametrize("line", HARMLESS)
def test_words_alone_are_no_failure(tmp_path, line):
    with pytest.raises(InputError, match="not a known kind"):
        of(tmp_path, line)


def test_the_status_of_a_completion_is_told(tmp_path):
    text = (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=1 len=0 vendor err 129"
    )
    failure = of(tmp_path, text).failure
    assert "status 12 of a completion means: the peer did not acknowledge in time" in failure.why
    assert "NCCL_IB_GID_INDEX" in failure.next
    unknown = of(tmp_path, text.replace("12 opcode", "77 opcode")).failure
    assert "completion means" not in unknown.why


def test_whoever_was_killed_may_have_run_out_of_memory_or_been_killed_by_somebody(tmp_path):
    failure = of(tmp_path, "exits with return code = -9").failure
    assert failure.cause == "killed"
    assert "out of host memory, else somebody's kill" in failure.why
    assert "dmesg" in failure.next
    assert "MaxRSS" in failure.next


def test_what_cannot_be_read_falls_through_only_to_a_failure(tmp_path):
    cut = '{"nccl-tests": {\n'
    with pytest.raises(InputError):
        of(tmp_path, cut)
    assert of(tmp_path, f"{cut}RuntimeError: broken\n").failure.cause == "exception in the program"


def test_a_benchmark_that_failed_is_not_judged_and_says_why_it_failed(tmp_path):
    found = of(tmp_path, f"{HEADER}node0: Test NCCL failure common.cu:777 'unhandled system error'\n")
    assert found.failure.cause == "NCCL system error"
    assert [one.what for one in found.not_judged] == ["nccl-tests output text"]
