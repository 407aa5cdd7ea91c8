"""The numbers of the catalogue: complete, sourced, consistent with each other."""

import csv
import re
from collections.abc import Iterator
from typing import Any

import pytest

from syncwall import catalogue
from syncwall.answer.interval import TABLE
from syncwall.catalogue import CatalogueKind
from syncwall.cost.calibration import Calibration
from syncwall.describe import Cluster, Device, Link, Model, PriceList, lookup
from syncwall.describe.base import (
    CatalogueEntry,
    Count,
    Description,
    Provenance,
    SourcedNumber,
    Trust,
)
from syncwall.describe.choice import Dtype
from syncwall.describe.names import load
from syncwall.documents import opened_table
from syncwall.validate.table import read_tables

READERS: dict[CatalogueKind, Any] = {
    CatalogueKind.DEVICE: lookup.device,
    CatalogueKind.LINK: lookup.link,
    CatalogueKind.CLUSTER: lookup.cluster,
    CatalogueKind.MODEL: lookup.model,
    CatalogueKind.PRICE: lookup.price_list,
    CatalogueKind.FRAMEWORK: lookup.framework,
    CatalogueKind.SWITCH: lookup.switch,
    CatalogueKind.FAILURE: lookup.failure_rates,
    CatalogueKind.CALIBRATION: lambda name: load(CatalogueKind.CALIBRATION, Calibration, name),
}
ENTRIES: list[CatalogueEntry] = [
    READERS[kind](name) for kind in CatalogueKind for name in catalogue.names(kind)
]
DEVICES = [entry for entry in ENTRIES if isinstance(entry, Device)]
LINKS = [entry for entry in ENTRIES if isinstance(entry, Link)]
CLUSTERS = [entry for entry in ENTRIES if isinstance(entry, Cluster)]
MODELS = [entry for entry in ENTRIES if isinstance(entry, Model)]
PRICES = [entry for entry in ENTRIES if isinstance(entry, PriceList)]
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")

every = pytest.mark.parametrize


def by_name(entries: list[Any]) -> dict[str, Any]:
    return {"argvalues": entries, "ids": [entry.name for entry in entries]}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number that the file of an entry states, with the keys that lead to it."""
    if isinstance(value, Description):
        for name in value.model_fields_set - {"provenance", "name"}:
            inner = getattr(value, name)
            if not isinstance(inner, CatalogueEntry):  # a device inside a machine has its own file
                yield from numbers(inner, f"{path}.{name}")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)) and not path.endswith(("serves", "aliases")):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{path}.{index}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def sourced(entry: CatalogueEntry, number: Any) -> Provenance | None:
    if isinstance(number, (SourcedNumber, Count)):
        return number.provenance
    stated = entry.provenance or {}  # a ratio such as an oversubscription has no type of its own
    return Provenance(Trust(stated["trust"]), stated["source"]) if stated else None


@every("entry", **by_name(ENTRIES))
def test_every_number_has_a_source_a_date_and_a_trust_level(entry: CatalogueEntry):
    for path, number in numbers(entry):
        provenance = sourced(entry, number)
        assert provenance is not None, path
        assert provenance.source in catalogue.sources(), f"{path}: {provenance.source}"
        assert DATE.fullmatch(provenance.dated or ""), path
        if provenance.trust is Trust.ASSUMED:
            assert provenance.note or entry.note, f"{path}: say what is assumed"


def test_every_source_is_complete_and_used():
    for key, source in catalogue.sources().items():
        assert set(source) == {"title", "author", "date", "where", "licence"}, key
        assert DATE.fullmatch(str(source["date"])), key
    used = {p.source for e in ENTRIES for _, n in numbers(e) if (p := sourced(e, n))}
    used |= {row.source for row in read_tables()}
    with opened_table(TABLE) as stream:  # tables that may not be passed on: only errors are here
        used |= {row["source"] for row in csv.DictReader(stream)}
    assert set(catalogue.sources()) == used


@every("entry", **by_name(ENTRIES))
def test_every_entry_has_a_title(entry: CatalogueEntry):
    assert entry.title


@every("device", **by_name(DEVICES))
def test_names_of_links_exist_and_rates_are_their_sums(device: Device):
    if device.pcie:
        assert lookup.link(device.pcie).kind in ("pcie", "chip-to-chip")
    if device.scale_up:
        one = lookup.link(device.scale_up.link).rate_bytes_per_s
        assert device.scale_up.rate_bytes_per_s == pytest.approx(device.scale_up.links * one, rel=0.01)


@every("device", **by_name(DEVICES))
def test_peaks_are_dense_and_grow_as_formats_shrink(device: Device):
    peak = device.peak_flop_per_s
    if Dtype.FP8 in peak and Dtype.BF16 in peak:
        assert peak[Dtype.FP8] <= 2.05 * peak[Dtype.BF16]
    if Dtype.BF16 in peak and Dtype.FP32 in peak:
        assert peak[Dtype.BF16] >= peak[Dtype.FP32]
    for dtype, rate in device.achieved_flop_per_s.items():
        assert 0.3 * peak[dtype] < rate < 1.15 * peak[dtype]  # GeForce clocks go beyond those printed


@every("device", **by_name(DEVICES))
def test_memory_is_of_the_order_of_its_kind(device: Device):
    assert 4e9 <= device.memory.size_bytes <= 600e9
    assert 2e10 <= device.memory.rate_bytes_per_s <= 3e13


@every("link", **by_name(LINKS))
def test_lanes_sum_to_the_rate(link: Link):
    if link.lane_bytes_per_s and link.lanes:
        assert link.rate_bytes_per_s == pytest.approx(link.lane_bytes_per_s * link.lanes, rel=0.03)


@every("link", **by_name(LINKS))
def test_what_was_measured_is_possible(link: Link):
    for effective in link.effective:
        in_switch = "NVLS" in effective.what or "SHARP" in effective.what
        assert effective.fraction <= (1.2 if in_switch else 1.0), effective.what


@every("machine", **by_name(CLUSTERS))
def test_machines_are_built_of_known_links(machine: Cluster):
    names = [machine.scale_up.link if machine.scale_up else None]
    if machine.node.nics:
        names += [machine.node.nics.link, machine.node.nics.pcie]
    for name in filter(None, names):
        lookup.link(name)


@every("machine", **by_name(CLUSTERS))
def test_scale_up_rates_are_those_of_the_device(machine: Cluster):
    device, domain = machine.device, machine.scale_up
    if domain and device.scale_up and domain.link == device.scale_up.link:
        assert domain.rate_bytes_per_s <= device.scale_up.rate_bytes_per_s * 1.01


@every("machine", **by_name([m for m in CLUSTERS if m.node.nics and m.node.nics.link]))
def test_nic_rates_are_those_of_the_link(machine: Cluster):
    assert machine.node.nics is not None
    assert machine.node.nics.link is not None
    link = lookup.link(machine.node.nics.link)
    widths = [link.rate_bytes_per_s, *((link.lane_bytes_per_s or 0.0) * lanes for lanes in link.widths)]
    assert any(machine.node.nics.rate_bytes_per_s == pytest.approx(rate) for rate in widths)


@every("model", **by_name(MODELS))
def test_the_name_tells_the_size_of_the_model(model: Model):
    label = re.search(r"(\d+(?:[.b]\d+)?)([mbt])\b", model.name.replace("1b7", "1.7b"))
    if label is None or "x" in model.name:
        return
    scale = {"m": 1e6, "b": 1e9, "t": 1e12}[label[2]]
    assert model.parameters == pytest.approx(float(label[1].replace("b", ".")) * scale, rel=0.35)


@every("model", **by_name([model for model in MODELS if model.train_batch_tokens is not None]))
def test_a_published_batch_is_a_number_of_whole_sequences(model: Model):
    """Or the paper rounds in a way that no number of sequences gives, and the entry says so."""
    tokens = model.train_batch_tokens
    assert isinstance(tokens, SourcedNumber)
    assert model.train_seq is not None
    assert 2**18 <= tokens <= 2**27
    sequences, rest = divmod(tokens, model.train_seq)
    note = str(tokens.provenance.note or "")
    said = "no whole number of sequences" if rest else f"{sequences:,.0f} sequences"
    assert said in note


def test_batches_that_papers_state_in_tokens():
    assert lookup.model("llama-2-70b").train_batch_tokens == 2**22  # printed 4M
    assert lookup.model("llama-3.1-405b").train_batch_tokens == 2**24  # printed 16M
    assert lookup.model("gpt3-175b").train_batch_tokens == 3.2e6
    assert lookup.model("llama-3.1-8b").train_batch_tokens is None  # not published


@every("fit", **by_name([entry for entry in ENTRIES if isinstance(entry, Calibration)]))
def test_calibrations_are_of_known_devices(fit: Calibration):
    if fit.name != "generic":
        assert fit.device == fit.name
        assert lookup.device(fit.name).name == fit.name


@every("prices", **by_name(PRICES))
def test_prices_name_known_things_and_days(prices: PriceList):
    for offer in prices.offers:
        assert lookup.device(offer.device).name == offer.device
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", offer.date)
        assert 0.1 < offer.price_usd_per_gpu_hour < 50
        if offer.cluster:
            assert lookup.cluster(offer.cluster).device.name == offer.device


@every(
    ("kind", "least"),
    [
        (CatalogueKind.DEVICE, 44),
        (CatalogueKind.LINK, 35),
        (CatalogueKind.CLUSTER, 55),
        (CatalogueKind.MODEL, 60),
        (CatalogueKind.PRICE, 5),
    ],
)
def test_the_catalogue_covers_what_people_train_on(kind, least):
    assert len(catalogue.names(kind)) >= least


def test_figures_that_are_often_printed_wrong():
    h100, a100 = lookup.device("h100-sxm"), lookup.device("a100-sxm-80")
    assert 989.4e12 <= h100.flop_per_s(Dtype.BF16) <= 989.5e12  # not 1979, which is sparse
    assert h100.memory.rate_bytes_per_s == 3.35e12
    assert Dtype.FP8 not in a100.peak_flop_per_s
    gaudi2, gaudi3 = lookup.device("gaudi2"), lookup.device("gaudi3")
    assert gaudi2.scale_up is not None
    assert gaudi3.scale_up is not None
    assert gaudi2.scale_up.rate_bytes_per_s == 262.5e9  # 21 x 100 Gb/s, not 300 GB/s
    assert gaudi3.scale_up.rate_bytes_per_s == 525e9  # 21 x 200 Gb/s, not 600 GB/s
    dgx = lookup.cluster("dgx-h100")
    assert dgx.scale_up is not None
    assert dgx.node.nics is not None
    assert dgx.scale_up.rate_bytes_per_s == 450e9  # 900 is duplex
    assert (dgx.node.nics.count, dgx.node.nics.rate_bytes_per_s) == (8, 50e9)


@every(
    ("name", "bf16", "ratio"),
    [
        ("rtx-3090", 71e12, 2),
        ("rtx-4090", 165.2e12, 2),
        ("rtx-5090", 209.5e12, 2),
        ("rtx-a6000", 154.8e12, 4),
        ("rtx-6000-ada", 364.2e12, 4),
        ("rtx-pro-6000", 503.8e12, 4),
        ("a10", 125e12, 4),
    ],
)
def test_geforce_cards_sum_in_fp32_at_half_rate(name, bf16, ratio):
    """Over fp32 outside the tensor cores: 2 on GeForce, 4 on professional cards of the same chip;
    and the peak is that of multiprocessors and clock."""
    device = lookup.device(name)
    fp32 = device.flop_per_s(Dtype.FP32)
    assert device.flop_per_s(Dtype.BF16) == bf16 == device.flop_per_s(Dtype.FP16)
    assert bf16 / fp32 == pytest.approx(ratio, rel=0.01)
    assert device.multiprocessors is not None
    assert device.clock_hz is not None
    assert fp32 == pytest.approx(device.multiprocessors * 256 * device.clock_hz, rel=0.01)


def test_the_shared_nic_of_baskerville():
    assert lookup.cluster("baskerville").nic_groups == ((0, 1, 2, 3),)


def test_a_rack_is_one_domain():
    assert lookup.cluster("gb200-nvl72", nodes=18).domain_gpus == 72
