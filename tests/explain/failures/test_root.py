"""The root of several failures: what is deepest, then first; others follow from it."""

import json

from syncwall.cli import main
from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState

TIME_OUT = (
    "[rank{rank}]:[E419 10:42:28.8{rank} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for 600013 milliseconds before timing out."
)


def of(tmp_path, *texts):
    """What some texts say, one file each."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"log{number}")
        paths[-1].write_text(text)
    return explain(paths)


def waits(*ranks, number=7):
    """What ranks that wait write."""
    return "\n".join(TIME_OUT.format(rank=rank, number=number) for rank in ranks) + "\n"


def test_an_exception_of_one_rank_is_why_the_others_wait(tmp_path):
    raised = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/home/u/train.py", line 120, in step\n'
        "[rank3]:     loss = batch['labels']\n"
        '[rank3]:   File "/usr/lib/python3/site-packages/torch/nn/module.py", line 5, in __call__\n'
        "[rank3]: KeyError: 'labels'\n"
    )
    for texts in ([waits(0, 1, 2) + raised], [waits(0, 1, 2), raised], [raised, waits(0, 1, 2)]):
        found = of(tmp_path, *texts)
        assert found.failure.cause == "exception in the program"
        assert "(rank 3): KeyError: 'labels'" in found.failure.what
        assert "it was in /home/u/train.py:120 step" in found.failure.why
        assert [(one.cause, one.ranks) for one in found.failure.followed_by] == [
            ("collective time-out", (0, 1, 2))
        ]


def test_hardware_is_the_reason_of_what_programs_say(tmp_path):
    kernel = (
        "Apr  2 03:04:05 node7 kernel: NVRM: Xid (PCI:0000:18:00): 79, pid=5, GPU has fallen off the bus.\n"
    )
    program = "RuntimeError: CUDA error: unspecified launch failure\n"
    found = of(tmp_path, program + waits(0, 1), kernel)
    assert found.failure.cause == "GPU lost"
    assert found.failure.hosts == ("node7",)
    assert {one.cause for one in found.failure.followed_by} == {"GPU kernel fault", "collective time-out"}


def test_the_first_exception_of_several_is_the_root(tmp_path):
    first, second = (
        "2025-01-02 10:00:0{} ERROR ValueError: bad shape",
        "2025-01-02 10:00:0{} ERROR OSError: gone",
    )
    assert "bad shape" in of(tmp_path, first.format(1) + "\n" + second.format(5)).failure.what
    assert "gone" in of(tmp_path, first.format(7) + "\n" + second.format(5)).failure.what


def test_an_exception_in_a_chain_is_the_one_that_started_it(tmp_path):
    text = (
        "Traceback (most recent call last):\nFileNotFoundError: data.bin\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\nRuntimeError: cannot start\n"
    )
    assert "data.bin" in of(tmp_path, text).failure.what


def test_ranks_that_did_not_report_are_named_if_most_did(tmp_path):
    found = of(tmp_path, waits(0, 1, 2, 4, 5, 7))
    assert found.failure.silent == (3, 6)
    assert "ranks 3, 6 did not report" in found.failure.what
    assert found.not_judged == ()
    assert list(found.next) == [found.failure.next]
    assert "ranks 3, 6" in found.failure.next


def test_one_rank_of_many_says_nothing_of_the_others(tmp_path):
    found = of(tmp_path, waits(7))
    assert found.failure.silent == ()
    assert found.state is VerdictState.WRONG
    assert [one.what for one in found.not_judged] == ["which rank is missing"]


def test_the_world_size_tells_of_ranks_above_those_that_reported(tmp_path):
    assert of(tmp_path, "world_size=4\n" + waits(0, 1)).failure.silent == (2, 3)
    assert of(tmp_path, "world_size: 2\n" + waits(0, 1)).failure.silent == ()


def test_time_outs_at_different_numbers_are_all_named(tmp_path):
    found = of(tmp_path, waits(0, 1, 3) + waits(2, number=6))
    assert "6: rank 2" in found.failure.why


def test_a_killed_process_is_explained_by_the_kernel(tmp_path):
    ended = (
        "E0325 20:57:27.620000 26 api.py:8] failed (exitcode: -9) local_rank: 5 (pid: 2630) of binary: p\n"
    )
    assert of(tmp_path, ended).failure.cause == "killed"
    killed = "Out of memory: Killed process 2630 (python) total-vm:9kB, anon-rss:4194304kB"
    kernel = f"[Tue Mar 25 20:57:20 2025] {killed}\n"
    found = of(tmp_path, ended, kernel)
    assert found.failure.cause == "host out of memory"
    assert "python (2630) held 4.0 GiB" in found.failure.why


def test_later_errors_of_a_gpu_follow_from_the_fault_of_a_program(tmp_path):
    fault = "[100.0] NVRM: Xid (PCI:0000:18:00): 31, pid=5, MMU Fault\n"
    soon, late = (f"[{at}] NVRM: Xid (PCI:0000:18:00): 62, pid=5, halt\n" for at in (110.0, 9000.0))
    assert of(tmp_path, fault + soon).failure.cause == "GPU kernel fault"
    assert of(tmp_path, fault + late).failure.cause == "GPU firmware hang"


def test_an_nccl_log_ends_with_its_failure(tmp_path):
    found = of(tmp_path, "h:1:2 [0] NCCL INFO Bootstrap : Using eth0\n" + waits(0, 1))
    assert list(found.files) == ["NCCL log"]
    assert found.conclusion.cause == "collective time-out"


def test_memory_is_told_apart(tmp_path):
    text = (
        "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 2 has a total "
        "capacity of 79.00 GiB of which {} is free. Process 11 has {} memory in use. Process 12 has {} "
        "memory in use. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch "
        "but unallocated.\n"
    )
    shared, fragmented = "GPU shared with other processes", "GPU memory fragmented"
    cases = {
        ("2.00 GiB", "1.00 GiB", "18.00 GiB", "60.00 GiB", "55.00 GiB", "3.00 GiB"): shared,
        ("2.00 GiB", "1.00 GiB", "18.00 GiB", "60.00 GiB", "38.00 GiB", "20.00 GiB"): shared,
        ("2.00 GiB", "1.00 GiB", "8.00 GiB", "70.00 GiB", "55.00 GiB", "13.00 GiB"): fragmented,
        ("2.00 GiB", "1.00 GiB", "8.00 GiB", "70.00 GiB", "67.00 GiB", "1.00 GiB"): "GPU out of memory",
        ("90.00 GiB", "70.00 GiB", "1.00 GiB", "8.00 GiB", "8.00 GiB", "0 bytes"): "GPU out of memory",
    }
    for sizes, cause in cases.items():
        found = of(tmp_path, text.format(*sizes))
        assert found.failure.cause == cause, sizes
        assert found.failure.what.startswith(f"rank 2 ran out of GPU memory: {sizes[0]} more")
    assert "one tensor is larger than the GPU" in found.failure.next


def test_the_json_says_what_followed(tmp_path, capsys):
    path = tmp_path / "log"
    path.write_text(waits(0, 1, 2) + "RuntimeError: broken\n")
    assert main(["explain", str(path), "--json"]) == 1
    failure = json.loads(capsys.readouterr().out)["failure"]
    assert failure["cause"] == "exception in the program"
    assert failure["where"] == f"{path}:4"
    assert failure["source"].startswith("https://")
    assert failure["followed_by"][0]["ranks"] == [0, 1, 2]
