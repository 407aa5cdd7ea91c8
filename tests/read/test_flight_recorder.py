"""Flight recorder dumps: plain data is read, anything else refused without running it."""

import json
import pickle

import pytest

from syncwall.problems import InputError
from syncwall.read.flight_recorder import read_flight_recorder
from syncwall.read.plain_pickle import plain_pickle
from tests.read.nccl_samples import flight


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_and_json_give_the_same(tmp_path, protocol):
    pickled, text = tmp_path / "nccl_trace_rank_3", tmp_path / "dump_3.json"
    pickled.write_bytes(pickle.dumps(flight(3, 5, state="started"), protocol))
    text.write_text(json.dumps(flight(3, 5, state="started")))
    one, two = read_flight_recorder(pickled), read_flight_recorder(text)
    assert one.entries == two.entries
    assert one.rank == two.rank == 3
    last = one.entries[-1]
    assert (last.sequence, last.operation, last.state) == (5, "all_reduce", "started")
    assert (last.input_sizes, last.dtypes) == (((4, 256),), ("Float",))
    assert last.frame == "train.py:42 main"
    assert one.groups == {"0": (0, 1, 2, 3)}


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_is_refused_and_not_run(tmp_path, capsys, protocol):
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps({"entries": [Evil()]}, protocol))
    with pytest.raises(InputError, match="print"):
        read_flight_recorder(path)
    assert not capsys.readouterr().out


def test_lists_of_the_cpp_pickler_are_read():
    """Torch's C++ pickler writes a list of integers as torch.jit._pickle.build_intlist([1, 2])."""
    raw = b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R."
    assert plain_pickle(raw, "x") == [1, 2]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80\x02.",
        b"\x80\x02]r\xff\xff\xff\xff.",
        b"\x80\x02u.",
        b"\x80\x02K\x01K\x02s.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02cos\nsystem\n.",
        b"(((.",
        b"\x80\x02h\x09.",
        b"\x80\x02}]K\x01s.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
)
def test_damaged_pickles(tmp_path, raw):
    path = tmp_path / "trace_0"
    path.write_bytes(raw)
    with pytest.raises(InputError):
        read_flight_recorder(path)


def test_other_json_is_an_error(tmp_path):
    path = tmp_path / "x_0.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(InputError, match="flight recorder"):
        read_flight_recorder(path)
