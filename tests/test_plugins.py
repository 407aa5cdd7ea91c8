"""Packages beside ours: what they add is used, and what is wrong with them is said."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall import plugins
from syncwall.answer.prediction import plugged_parts
from syncwall.catalogue import CatalogueKind, find
from syncwall.cause import Cause
from syncwall.cli import main
from syncwall.cost.nccl import algorithms
from syncwall.cost.prices import PRICED
from syncwall.explain.answer import explain
from syncwall.problems import InputError
from syncwall.show.prediction import assumed
from syncwall.work.block import Block, Operation
from syncwall.work.transformer_step import transformer_step

MODULE = """
from dataclasses import replace
from pathlib import Path
from syncwall.cost.nccl import Algorithm
from syncwall.cost.communication import NcclNetwork
from syncwall.describe.huggingface.dense import llama
from syncwall.describe.settings import FORMATS
from syncwall.explain.readers import Reader

CATALOGUE = Path(__file__).parent / "entries"
INSTANT = Algorithm(
    ("all-reduce",), lambda tuner, asked: (1.0, 1e15), formula="1 us + bytes / 1 PB/s"
)
SLOW = lambda cluster, fit, *, latency: NcclNetwork(cluster, fit, latency=100 * latency)
LINES = Reader(
    read=lambda path: [path.read_text().splitlines()],
    says=lambda lines: f"{len(lines) - 1} lines",
    recognise=lambda head: head.startswith(b"#lines"),
)
BROKEN = replace(LINES, recognise=lambda head: head.startswith(b"#broken"), says=lambda _: 1 / 0)
FORMAT = replace(FORMATS["deepspeed"], title="Own (JSON)", keys=("own_batch",))
BLUE = llama
NOT_ONE = 3
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package that adds entry points, given as lines by group."""
    monkeypatch.setattr(plugins, "_FOUND", {})
    monkeypatch.syspath_prepend(tmp_path)

    def installed(package: str = "beside", **groups: str) -> None:
        module = f"{package}_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(MODULE)
        info = tmp_path / f"{package}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        text = "".join(
            f"[syncwall.{group}]\n{line.replace('=', f'= {module}:')}\n" for group, line in groups.items()
        )
        (info / "entry_points.txt").write_text(text)

    return installed


def run(**layout):
    return sw.Run(
        model=sw.model("llama-3.1-8b"),
        cluster=sw.cluster("dgx-h100", nodes=2),
        layout=sw.Layout(shard="ddp", global_batch=64, **layout),
    )


def test_an_algorithm_that_is_faster_changes_a_prediction_which_says_so(install):
    before = sw.predict(run())
    assert plugged_parts(before) == []
    plugins._FOUND.clear()
    install(collectives="Instant=INSTANT")
    found = sw.predict(run())
    assert found.step_s < 0.99 * before.step_s
    (part,) = plugged_parts(found)
    assert (part.what, part.by, part.package) == ("all-reduce of dp", "Instant", "beside 1.5")
    assert assumed(found)[0] == (
        "all-reduce of dp by Instant of beside 1.5, a plug-in (1 us + bytes / 1 PB/s)"
    )


def test_a_network_is_chosen_by_its_name(install):
    install(networks="slow=SLOW")
    found = sw.predict(run(), network="slow")
    assert found.step_s > sw.predict(run()).step_s
    assert [part.what for part in plugged_parts(found)] == ["communication"]
    with pytest.raises(InputError, match='unknown network "slwo"'):
        sw.predict(run(), network="slwo")


def test_a_reader_explains_its_files(install, tmp_path):
    install(readers="list of lines=LINES")
    file = tmp_path / "some.txt"
    file.write_text("#lines\na\nb\n")
    found = explain([file])
    assert found.files == {"list of lines": 1}
    assert [one.says for one in found.read["list of lines"]] == ["2 lines"]


def test_a_reader_that_fails_is_named(install, tmp_path):
    install(readers="broken=BROKEN")
    file = tmp_path / "some.txt"
    file.write_text("#broken\n")
    with pytest.raises(InputError, match='the reader "broken" failed: ZeroDivisionError'):
        explain([file])


def test_a_settings_format_is_read(install, tmp_path):
    from syncwall.describe.settings import read_settings

    install(settings="own=FORMAT")
    file = tmp_path / "own.json"
    file.write_text('{"own_batch": 1}')
    assert read_settings(file).layout is not None


def test_an_architecture_is_read(install, tmp_path):
    install(architectures="llama_in_blue=BLUE")
    file = tmp_path / "config.json"
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"vocab_size": 100, "intermediate_size": 128}
    file.write_text(json.dumps({"model_type": "llama_in_blue", **shape}))
    assert sw.model(str(file)).layers == 2


def entry(folder: Path, kind: str, name: str, text: str) -> None:
    path = folder / kind / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_folder_of_a_package_belongs_to_the_catalogue(install, tmp_path):
    known = find(CatalogueKind.MODEL, "llama-3.1-8b").read_text()
    entry(
        tmp_path / "entries",
        "models",
        "of-a-package",
        known.replace("llama-3.1-8b", "of-a-package"),
    )
    plugins._FOUND.clear()
    install(catalogue="ours=CATALOGUE")
    found = sw.predict(run().model_copy(update={"model": sw.model("of-a-package")}))
    assert [(part.what, part.by) for part in plugged_parts(found)] == [("model", "of-a-package")]


def test_a_folder_with_a_name_that_is_taken_is_refused(install, tmp_path, caplog):
    entry(tmp_path / "entries", "models", "llama-3.1-8b", "name: other\n")
    plugins._FOUND.clear()
    install(catalogue="ours=CATALOGUE")
    assert sw.model("llama-3.1-8b").name == "llama-3.1-8b"
    assert "of beside 1.5 is not used: syncwall has models/llama-3.1-8b.yaml too" in caplog.text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("Absent=NOWHERE", "AttributeError"),
        ("Wrong=NOT_ONE", "is a int, not a Algorithm"),
        ("Ring=INSTANT", "syncwall and beside 1.5 both have this name"),
    ],
)
def test_what_cannot_be_used_is_said_once_and_breaks_nothing(install, caplog, line, problem):
    install(collectives=line)
    for _ in range(2):
        assert list(algorithms())[:2] == ["Ring", "Tree"]
    (record,) = caplog.records
    assert record.message.startswith(f'plug-in "{line.split("=")[0]}" (collectives) of beside 1.5')
    assert problem in record.message


def test_of_two_packages_with_one_name_neither_is_used(install, caplog):
    install("first", collectives="Same=INSTANT")
    install("second", collectives="Same=INSTANT")
    assert "Same" not in algorithms()
    assert caplog.text.count("first 1.5 and second 1.5 both have this name") == 2


def test_show_plugins_lists_them(install, capsys):
    install(collectives="Instant=INSTANT", readers="list of lines=NOT_ONE")
    assert main(["show", "plugins"]) == 0
    screen = capsys.readouterr().out
    assert "Instant" in screen
    assert "in use" in screen
    assert "not a Reader" in screen


@dataclass(frozen=True)
class Scan:
    """An operation of a type that we do not have."""

    tokens: int


def test_a_work_may_hold_operations_of_a_type_of_its_own(monkeypatch):
    whole = run(recompute="none", micro_batch=1).layout.placed(16).plain()
    work = transformer_step(sw.model("llama-3.1-8b"), whole, 8192)
    what: Any = Scan(10**6)
    scan = Block("scan", (Operation("scan", what, Cause.ELEMENTWISE),))
    longer = replace(work, stages=tuple(replace(one, finish=(*one.finish, scan)) for one in work.stages))
    monkeypatch.setitem(PRICED, Scan, lambda prices, what: what.tokens / 2e6)
    cluster = sw.cluster("dgx-h100", nodes=2)
    more_s = sw.predict(longer, cluster=cluster).step_s - sw.predict(work, cluster=cluster).step_s
    assert more_s == pytest.approx(0.5, rel=0.1)


def test_nobody_asks_for_packages_before_a_table_is_asked_for(monkeypatch, capsys):
    def refused(**_):
        raise AssertionError

    monkeypatch.setattr(plugins, "_FOUND", {})
    monkeypatch.setattr(plugins, "entry_points", refused)
    assert main(["--help"]) == 0
    assert main(["predict", "--help"]) == 0
