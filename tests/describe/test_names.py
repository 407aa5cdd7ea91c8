from pathlib import Path

import pytest

from syncwall import catalogue
from syncwall.answer import predict
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Run, lookup
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


def cards() -> list[str]:
    """Devices that stand in a PCIe slot of their own."""
    every = {name: lookup.device(name) for name in catalogue.names(CatalogueKind.DEVICE)}
    return [name for name, one in every.items() if one.pcie is not None and one.scale_up is None]


@pytest.mark.parametrize("name", cards())
def test_a_host_is_called_by_its_cards(name):
    for count in range(1, 9):
        found = lookup.cluster(f"{count}x{name}")
        assert (found.gpus, found.device.name, found.domain_gpus) == (count, name, count)
        assert found.scale_up is not None
        assert found.scale_up.rate_bytes_per_s == lookup.link(str(found.device.pcie)).rate_bytes_per_s
        assert (found.provenance or {})["trust"] == "assumed"


def test_cards_have_the_names_that_people_use():
    assert {"t4", "l4", "a10", "rtx-3090", "rtx-4090"} <= set(cards())
    for short, name in {"2x3090": "rtx-3090", "4 x RTX-4090": "rtx-4090", "1xa6000": "rtx-a6000"}.items():
        assert lookup.cluster(short).device.name == name
    same = lookup.cluster("4x3090"), lookup.cluster("workstation-pcie-4x3090")
    steps = [predict(Run(model="gpt2", cluster=one)).step_s for one in same]
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)


def test_what_it_assumes_is_said_first():
    found = predict(Run(model="gpt2", cluster="2xl4"))
    assert found.to_dict()["assumed"][0] == (
        "2 x l4 in one host, PCI Express 4.0 to each card, no NVLink bridge, no training network"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2xh100", "h100-sxm is no card of a PCIe slot"),
        ("2xnothing", 'unknown device "nothing"'),
        ("16x3090", "16 cards in one host: up to 8 are described, as 8xrtx-3090"),
    ],
)
def test_what_is_no_such_host(name, said):
    with pytest.raises(InputError, match=said):
        lookup.cluster(name)
