"""Files made to cost time or memory: refused or read within seconds of CPU time."""

import bz2
import os
import pickle
import socket
import time
import zipfile
from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.describe.settings.formats import arguments_document, parsed_text, toml_document
from syncwall.explain.traces.rank import _DATA
from syncwall.problems import InputError
from syncwall.read.detect import FileKind, expanded, kind_of, read_fabric, read_topology
from syncwall.read.flight_recorder import read_flight_recorder
from syncwall.read.kineto import read_trace
from syncwall.read.limited import open_limited, whole_json
from syncwall.read.nccl_log import read_nccl_log
from syncwall.read.plain_pickle import plain_pickle
from syncwall.read.trace import collective_kind

QUICK_S = 10.0
ONE_HASH = (1 << 61) - 1
"""Multiples of it have the hash 0."""


@pytest.fixture(autouse=True)
def quick():
    """Every test here takes little CPU time; what it guards against took over 20 s."""
    before = time.process_time()
    yield
    assert time.process_time() - before < QUICK_S


def file(folder: Path, raw: bytes | str, name: str = "input_0") -> Path:
    path = folder / name
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


@pytest.mark.parametrize("token", ["\n", "** ", "optype ", "dp_rank, ", '"pg_config":', " ", "#\n"])
def test_recognising_takes_time_in_proportion_to_the_size(tmp_path, token):
    with pytest.raises(InputError, match="not a known kind"):
        kind_of(file(tmp_path, token * (1_000_000 // len(token))))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{\n"pg_config": {}, "a": "\n",\n"entries": []}', FileKind.FLIGHT),
        ('a,dp_rank,stage,"optype"\n', FileKind.OPERATIONS),
        ("x\nstep,optype,start_ts,duration\n", FileKind.OPERATIONS),
        ("x\n  ** CUDA API Summary (cuda_api_sum):\n", FileKind.NSYS),
        ("\n\n \t GPU0\tGPU1\n", FileKind.TOPOLOGY),
    ],
)
def test_what_is_known_is_still_recognised(tmp_path, text, kind):
    assert kind_of(file(tmp_path, text)) is kind


def test_patterns_for_names_of_kernels_are_bounded():
    assert collective_kind("multimem" * 100_000) == "other"
    assert not _DATA.search("[pl]" * 200_000)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_members_that_cannot_be_bounded_are_refused(tmp_path, method):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("nccl.log", "h:1:2 [0] NCCL INFO a")
    with pytest.raises(InputError, match="another method than deflate"):
        open_limited(path)


def test_bzip2_by_itself_is_refused(tmp_path):
    with pytest.raises(InputError, match="packed with bzip2"):
        open_limited(file(tmp_path, bz2.compress(b"a")))


def test_a_log_of_empty_lines_is_refused(tmp_path):
    path = file(tmp_path, "h:1:2 [0] NCCL INFO a\n" + "\n" * 600_000)
    with pytest.raises(InputError, match="nearly empty lines"):
        read_nccl_log(path)


def shared(levels: int) -> object:
    value: object = ["a"]
    for _ in range(levels):
        value = [value] * 10
    return value


def test_shared_lists_of_a_pickle_are_never_written_out(tmp_path):
    much = shared(30)
    entry = {
        "collective_seq_id": 1,
        "pg_id": much,
        "process_group": [much],
        "state": much,
        "frames": [{"filename": much, "name": much}],
        "input_dtypes": [much],
    }
    raw = pickle.dumps({"version": much, "entries": [entry] * 1000, "pg_config": {"0": {"name": much}}})
    found = read_flight_recorder(file(tmp_path, raw))
    assert len(found.entries) == 1000
    assert found.entries[0].group == ""


def test_lists_that_entries_share_are_read_once(tmp_path):
    sizes = [[1] * 16] * 64
    entry = {"collective_seq_id": 1, "input_sizes": sizes, "frames": [{"name": "f"}] * 200}
    found = read_flight_recorder(file(tmp_path, pickle.dumps({"entries": [entry] * 20_000})))
    assert found.entries[0].input_sizes is found.entries[-1].input_sizes


def test_keys_of_a_pickle_become_text():
    assert plain_pickle(pickle.dumps({1: 2, "a": 3}), "f") == {"1": 2, "a": 3}
    keys = dict.fromkeys(range(0, 30_000 * 8, 8))
    assert len(plain_pickle(pickle.dumps(keys), "f")) == 30_000
    with pytest.raises(InputError, match="more than 64 bits"):
        plain_pickle(pickle.dumps({ONE_HASH * 9: 1}), "f")


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps(1 << 100),
        b"\x80\x02I" + b"9" * 5000 + b"\n.",
        pickle.dumps(shared(30))[:-1] + b"\x8c\x01a\x93.",
    ],
    ids=["large", "digits", "name of lists"],
)
def test_integers_and_names_that_are_too_long_are_input_problems(raw):
    with pytest.raises(InputError):
        plain_pickle(raw, "f")


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, "[" + "[]," * 4_100_000 + "[]]"])
def test_json_that_is_decoded_at_once_is_bounded(text):
    with pytest.raises(InputError):
        whole_json(text.encode(), "f", "a dump")


def test_threads_of_one_hash_do_not_slow_a_trace(tmp_path):
    event = '{{"ph":"X","name":"k","pid":{},"tid":0,"ts":1}}'
    events = ",".join(event.format(n * ONE_HASH) for n in range(12_000))
    assert len(read_trace(file(tmp_path, f'{{"traceEvents":[{events}]}}', "rank0.json"))) == 12_000


def test_elements_decoded_in_vain_are_given_up(tmp_path):
    text = '{"traceEvents":[' + '{"ph":' * 900 + "[" + "0," * 400_000
    with pytest.raises(InputError, match="too damaged"):
        read_trace(file(tmp_path, text, "rank0.json"))


@pytest.mark.parametrize("nodes", ['"n[0-999998]"', '"n[1-60000]", "m[1-60000]"'])
def test_ranges_of_hosts_are_bounded(tmp_path, nodes):
    text = f"switches: {{a: {{}}}}\nblocks: [{{switch: a, nodes: [{nodes}]}}]\n"
    with pytest.raises(InputError, match="more than 100,000 cables"):
        read_fabric(file(tmp_path, text, "model.yaml"))


def test_a_host_of_thousands_of_gpus_is_refused(tmp_path):
    text = '<system><cpu numaid="0">' + '<pci class="0x0302"/>' * 20_000 + "</cpu></system>"
    with pytest.raises(InputError, match="20000 GPUs"):
        read_topology(file(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    ["[{}]", "{} = 1", "x = {{{} = 1}}"],
)
def test_toml_keys_of_thousands_of_parts_are_refused(text):
    with pytest.raises(InputError, match="nested too deeply"):
        toml_document(text.format("a." * 20_000 + "a"), "f.toml")
    with pytest.raises(InputError, match="nested too deeply"):
        toml_document("\n" + text.format('"a" . ' * 20_000 + "a"), "f.toml")


def test_toml_of_usual_depth_is_read():
    numbers = ", ".join(["0.5"] * 200)
    found = toml_document(f"[a.b.c]\nd.e = [{numbers}]\ns = '{'.' * 100} a.b.c'\n", "f.toml")
    assert len(found.value["a"]["b"]["c"]["d"]["e"]) == 200


@pytest.mark.parametrize(
    "text", ["\n" * 500_000, "--a '" + "|" * 500_000, "a=" + "x" * 4000 + "\n--a " + "$a" * 200_000]
)
def test_settings_take_time_in_proportion_to_their_size(text):
    try:
        document = parsed_text(text, Path("settings"))
    except InputError:
        return
    assert all(len(word) <= 500_000 for word in document.value["--a"])


def test_variables_are_put_in_until_a_word_is_long():
    found = arguments_document("a=xy\nb=$a$a\n--c $b-${d:-e}", "f").value
    assert found["--c"] == ["xyxy-e"]


def test_pipes_sockets_and_devices_are_refused(tmp_path, capsys):
    pipe, listener = tmp_path / "pipe", socket.socket(socket.AF_UNIX)
    os.mkfifo(pipe)
    listener.bind(str(tmp_path / "socket"))
    try:
        for path in (pipe, tmp_path / "socket", Path("/dev/zero")):
            assert main(["explain", str(path)]) == 2
        assert main(["predict", str(pipe)]) == 2
    finally:
        listener.close()
    assert capsys.readouterr().err.count("is a pipe or a device") >= 3


def test_a_directory_is_read_without_the_pipes_in_it(tmp_path):
    file(tmp_path, "h:1:2 [0] NCCL INFO a\n", "nccl.log")
    os.mkfifo(tmp_path / "pipe")
    found, unknown = expanded([tmp_path])
    assert list(found) == [FileKind.NCCL_LOG]
    assert "is a pipe or a device" in str(unknown[0])
