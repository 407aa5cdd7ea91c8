"""Lists of hosts as Slurm writes them, and places of processes as launchers state them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.hosts import Place, first_of_slurm, place, required_place, slurm_hosts
from syncwall.problems import InputError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login1", "login1"),
        ("node[1-3]", "node1 node2 node3"),
        ("node[08-10,12]", "node08 node09 node10 node12"),
        ("node[098-101]", "node098 node099 node100 node101"),
        ("n[1-2]-ib0.lan,a b", "n1-ib0.lan n2-ib0.lan a b"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("[1-2],[7]", "1 2 7"),
        ("node[1, 3 - 4]", "node1 node3 node4"),
        ("", ""),
        (" ,, ", ""),
    ],
)
def test_lists_are_written_out_as_slurm_does(text, hosts):
    assert list(slurm_hosts(text)) == hosts.split()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node[1-3", r'"\[" without its partner'),
        ("node1]", r'"\]" without its partner'),
        ("node[1-[2-3]]", "without its partner"),
        ("node[]", '"" is no number or range'),
        ("node[3-1]", '"3-1" is no number or range'),
        ("node[1-2-3]", "write 1 or 1-8"),
        ("bgl[123x456]", '"123x456" is no number'),
        ("node[0-999999999]", "more than 1,000,000 hosts"),
        ("a[1-2000]b[1-2000]", "more than 1,000,000 hosts"),
        ("a[1-600000],b[1-600000]", "more than 1,000,000 hosts"),
        ("n" * 300, "more than 253 letters"),
        ("[1]" * 11, "10 brackets"),
    ],
)
def test_what_is_no_list_is_refused_with_its_file(text, said):
    with pytest.raises(InputError, match=said) as refused:
        list(slurm_hosts(text, file="topology.conf"))
    assert str(refused.value).startswith("topology.conf: ")


FIXED = st.text("abn.-_", max_size=4)
NUMBERS = st.tuples(st.integers(0, 1200), st.integers(0, 12), st.integers(1, 5))


@st.composite
def lists(draw):
    """A list in Slurm's words and its hosts, counted out one by one."""
    text, hosts = [], []
    for _ in range(draw(st.integers(1, 3))):
        word = draw(FIXED)
        names = [word]
        for _ in range(draw(st.integers(0, 3))):
            written, found = [], []
            for first, more, width in draw(st.lists(NUMBERS, min_size=1, max_size=3)):
                start = str(first).zfill(width)
                written.append(f"{start}-{first + more}" if more else start)
                found += [str(first + step).zfill(len(start)) for step in range(more + 1)]
            after = draw(FIXED)
            word += f"[{','.join(written)}]{after}"
            names = [f"{name}{number}{after}" for name in names for number in found]
        text.append(word)
        hosts += [name for name in names if name]
    return ",".join(text), hosts


@given(lists())
def test_every_list_is_written_out_in_its_order(case):
    text, hosts = case
    assert list(slurm_hosts(text)) == hosts


@given(st.text("an01-, []x\t", max_size=40) | st.text(max_size=40))
def test_any_text_is_names_without_brackets_or_refused(text):
    try:
        found = list(slurm_hosts(text))
    except InputError:
        return
    assert all(found)
    assert not any(re.search(r"[\s,\[\]]", name) for name in found)


@given(lists())
def test_the_first_of_a_job_is_the_first_of_its_list(case):
    text, hosts = case
    assert first_of_slurm({"SLURM_JOB_NODELIST": text}) == (hosts or [""])[0]


def test_a_job_without_a_list_has_no_first_host():
    assert first_of_slurm({}) == ""
    assert first_of_slurm({"SLURM_JOB_NODELIST": "node[1-"}) == ""


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "n0", "MASTER_PORT": "29500"}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "1234567",
    "SLURM_STEP_NODELIST": "gpu[03-04,07],login1",
}


def joined_by(environ):
    """What ranks find each other by."""
    found = required_place(environ)
    return found.rank, found.world, found.local_rank, found.address, found.port


def test_torchrun_states_the_place():
    assert joined_by(TORCHRUN) == (3, 4, 1, "n0", 29500)


def test_slurm_states_the_place():
    assert joined_by(SLURM) == (5, 8, 1, "gpu03", 24567)
    assert joined_by(SLURM | {"MASTER_ADDR": "x", "MASTER_PORT": "7"}) == (5, 8, 1, "x", 7)


def test_torchrun_inside_slurm_counts():
    assert required_place(SLURM | TORCHRUN).rank == 3


def test_nobody_states_it():
    assert joined_by({}) == (0, 1, 0, "127.0.0.1", 0)
    assert required_place({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}).world == 1  # a shell of salloc


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
        required_place(environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MASTER_PORT", "99999999"), ("WORLD_SIZE", "999999999"), ("RANK", "9" * 5000)],
)
def test_numbers_that_cannot_be_are_refused_at_once(name, value):
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    with pytest.raises(InputError, match=rf"{name} is \d+: it can be \d+ at most"):
        required_place(environ | {name: value})


WATCHED = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "29500",
}
HALF = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}


def test_what_is_not_stated_is_guessed_where_nobody_has_to_join():
    assert place({}) is None
    found = place(WATCHED)
    assert found == Place(5, 8, 0, 4, 1, "a", 29500)
    assert found.nodes == 2
    slurm = place(HALF)
    assert slurm is not None
    assert (slurm.rank, slurm.node_rank, slurm.local_world, slurm.nodes) == (5, 1, 4, 2)
    assert slurm.address == ""
    listed = place(HALF | {"SLURM_JOB_NODELIST": "gpu[03-04]"})
    assert listed is not None
    assert listed.address == "gpu03"


def test_open_mpi_states_the_place():
    mpi = {"RANK": "5", "SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4", "NODE_RANK": "1"}
    names = {f"OMPI_COMM_WORLD_{k}": v for k, v in mpi.items()}
    found = place(names)
    assert found is not None
    assert (found.rank, found.world, found.local_rank, found.nodes) == (5, 8, 1, 2)
