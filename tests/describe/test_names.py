from pathlib import Path

import pytest

from syncwall.describe import lookup
from syncwall.describe.base import SourcedNumber
from syncwall.problems import InputError

DEVICE = """\
vendor: acme
architecture: roadrunner
peak: {bf16: 500 TFLOP/s}
memory: {size: 64 GB, rate: 2 TB/s}
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's catalogue with one device in it."""
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "acme-1.yaml").write_text(DEVICE)
    monkeypatch.setenv("SYNCWALL_CATALOGUE", str(tmp_path))
    return tmp_path


def test_a_dropped_file_is_a_device(directory):
    assert lookup.device("acme-1").memory.rate_bytes_per_s == 2e12
    assert lookup.device("h100-sxm").name == "h100-sxm"


def test_a_users_entry_hides_the_built_in_one(directory):
    (directory / "devices" / "h100-sxm.yaml").write_text(DEVICE)
    assert lookup.device("h100-sxm").vendor == "acme"


def test_a_dropped_device_can_be_put_into_a_machine(directory):
    (directory / "clusters").mkdir()
    (directory / "clusters" / "acme-pod.yaml").write_text(
        "base: dgx-h100\nnode: {device: acme-1}\nscale_up: {rate: 300 GB/s}\n"
    )
    machine = lookup.cluster("acme-pod", nodes=4)
    assert (machine.device.name, machine.gpus) == ("acme-1", 32)
    assert machine.scale_up is not None
    assert machine.scale_up.rate_bytes_per_s == 300e9


@pytest.mark.parametrize("name", ["H100_SXM", "h100 sxm", "h100"])
def test_names_are_found_as_people_write_them(name):
    assert lookup.device(name).name == "h100-sxm"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match='unknown device "h100-sxn"; did you mean "h100-sxm"'):
        lookup.device("h100-sxn")


def test_what_is_varied_keeps_the_sources_of_the_rest(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: h100-sxm\nmemory: {size: 96 GB}\n")
    mine, base = lookup.device(str(path)), lookup.device("h100-sxm")
    assert mine.name == "mine"
    assert isinstance(mine.memory.rate_bytes_per_s, SourcedNumber)
    assert isinstance(base.memory.rate_bytes_per_s, SourcedNumber)
    assert mine.memory.rate_bytes_per_s.provenance == base.memory.rate_bytes_per_s.provenance


def test_an_unknown_base_is_blamed_on_its_line(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("vendor: acme\nbase: h1000\n")
    with pytest.raises(InputError, match=r'mine.yaml:2:1  unknown device "h1000"'):
        lookup.device(str(path))


def test_a_base_that_is_its_own_base_ends(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: ./mine.yaml\n")
    with pytest.raises(InputError, match="is based on itself"):
        lookup.device(str(path))


def test_a_directory_that_is_no_catalogue_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SYNCWALL_CATALOGUE", str(tmp_path))
    with pytest.raises(InputError, match="is not a catalogue: it holds none of devices/"):
        lookup.device("h100")


@pytest.mark.parametrize(
    ("hub", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"),
        ("meta-llama/Llama-4-Scout-17B-16E", "llama-4-scout"),
    ],
)
def test_a_model_by_its_name_on_the_hub(hub, name):
    assert lookup.model(hub).name == name


def test_a_model_of_the_local_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    stored = tmp_path / "models--me--tiny" / "snapshots" / "abc"
    stored.mkdir(parents=True)
    source = Path("tests/data/settings/whole/local_model/config.json")
    (stored / "config.json").write_text(source.read_text())
    model = lookup.model("me/tiny")
    assert (model.name, model.layers) == ("tiny", 8)
    with pytest.raises(InputError, match="neither a file, nor in the catalogue"):
        lookup.model("me/other")
