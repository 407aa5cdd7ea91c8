"""A loop acts on a spike, every rank at the same step."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from syncwall.problems import InputError
from syncwall.watch import on_decision
from syncwall.watch.spikes import Action


def losses():
    values = 3.0 * np.exp(np.random.default_rng(2).normal(0, 0.02, 1000))
    values[600:640] *= 2
    return values


def played(policy):
    acted: list[tuple[int, object]] = []
    deciding = on_decision(lambda one: acted.append((step, one)), policy)
    for step, value in enumerate(losses()):
        if step % 100 == 0:
            deciding.checkpoint(step)
        deciding.loss(step, value)
    return acted


def test_all_ranks_roll_back_at_the_same_step():
    ranks = [played("palm") for _ in range(4)]
    assert all(one == ranks[0] for one in ranks)
    ((step, decision),) = ranks[0]
    assert decision.action is Action.ROLL_BACK
    assert (decision.checkpoint_step, decision.skip_batches) == (500, 200)
    assert step == decision.at_step - 1


def test_by_default_somebody_is_told_at_once():
    ((step, decision),) = played("alert")
    assert decision.action is Action.ALERT
    assert 600 <= step <= 602


def test_policies_have_names():
    with pytest.raises(InputError, match='no policy is called "palms"; did you mean "palm"'):
        on_decision(print, "palms")


RANK = """
import numpy as np, torch, torch.distributed as dist
from syncwall.watch import on_decision
dist.init_process_group("gloo")
own = np.random.default_rng(dist.get_rank())
deciding = on_decision(lambda made: print(step, made, flush=True), "palm")
for step in range(700):
    loss = torch.tensor(3.0 * np.exp(own.normal(0, 0.05)) * (2 if step >= 600 else 1))
    dist.all_reduce(loss)  # as loops do that log the mean
    deciding.loss(step, loss.item() / dist.get_world_size())
"""


@pytest.mark.slow
def test_ranks_of_a_real_job_agree_though_each_has_a_loss_of_its_own():
    pytest.importorskip("torch", reason="torch is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    job = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, **job, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(3)
    ]
    said = [one.communicate(timeout=120)[0] for one in ranks]
    assert said[0].count("ROLL_BACK") == 1
    assert said == [said[0]] * 3
