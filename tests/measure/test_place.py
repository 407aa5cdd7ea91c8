import pytest

from syncwall.measure.roster import Place, place
from syncwall.problems import InputError

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "n0",
            "MASTER_PORT": "29500"}  # fmt: skip
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0",
         "SLURM_JOB_ID": "1234567", "SLURM_STEP_NODELIST": "gpu[03-04,07],login1"}  # fmt: skip


def test_torchrun_states_the_place():
    assert place(TORCHRUN) == Place(3, 4, 1, "n0", 29500)


def test_slurm_states_the_place():
    assert place(SLURM) == Place(5, 8, 1, "gpu03", 24567)
    assert place(SLURM | {"MASTER_ADDR": "x", "MASTER_PORT": "7"}) == Place(5, 8, 1, "x", 7)


def test_torchrun_inside_slurm_counts():
    assert place(SLURM | TORCHRUN).rank == 3


def test_nobody_states_it():
    assert place({}) == Place(0, 1, 0, "127.0.0.1", 0)
    assert place({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}).world == 1  # a shell of salloc


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RANK": "0"}, "WORLD_SIZE is not set"),
        (TORCHRUN | {"RANK": "x"}, 'RANK is "x"'),
        (SLURM | {"MASTER_PORT": "first"}, 'MASTER_PORT is "first"'),
        ({k: v for k, v in SLURM.items() if "NODELIST" not in k}, "SLURM_JOB_NODELIST"),
    ],
)
def test_half_a_place_is_an_error(environ, words):
    with pytest.raises(InputError, match=words):
        place(environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MASTER_PORT", "99999999"), ("WORLD_SIZE", "999999999"), ("RANK", "9" * 5000)],
)
def test_numbers_that_cannot_be_are_refused_at_once(name, value):
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    with pytest.raises(InputError, match=rf"{name} is \d+: it can be \d+ at most"):
        place(environ | {name: value})
