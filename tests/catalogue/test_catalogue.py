import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.problems import InputError


def test_entries_are_files_by_name():
    assert "h100-sxm" in catalogue.names(CatalogueKind.DEVICE)
    assert catalogue.find(CatalogueKind.DEVICE, "h100-sxm").name == "h100-sxm.yaml"


@pytest.mark.parametrize("kind", list(CatalogueKind))
def test_names_are_sorted_and_written_the_same_way(kind):
    names = catalogue.names(kind)
    assert names == sorted(names)
    assert all(name == name.lower().replace("_", "-").replace(" ", "-") for name in names)


@pytest.mark.parametrize("kind", list(CatalogueKind))
def test_an_alias_belongs_to_one_entry(kind):
    aliases = [alias for alias, _ in catalogue._aliases(kind)]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(catalogue.names(kind))


def test_several_user_directories_are_searched_in_order(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name / "models").mkdir(parents=True)
        (tmp_path / name / "models" / "mine.yaml").write_text("")
    monkeypatch.setenv(catalogue.VARIABLE, f"{tmp_path}/first:{tmp_path}/second")
    assert catalogue.find(CatalogueKind.MODEL, "mine") == tmp_path / "first" / "models" / "mine.yaml"


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (CatalogueKind.MODEL, "dgx-h100", '"dgx-h100", which is a cluster'),
        (CatalogueKind.DEVICE, "llama-3.1-8b", '"llama-3.1-8b", which is a model'),
        (CatalogueKind.CLUSTER, "rtx4090", "workstation-pcie-4x4090, 1xrtx4090 to 8xrtx4090"),
        (CatalogueKind.CLUSTER, "t4", "a device; clusters with it: 1xt4 to 8xt4"),
        (CatalogueKind.CLUSTER, "tpu-v4", "a device; clusters with it: none here, write yours"),
    ],
)
def test_the_name_of_something_else_says_what_it_is(kind, name, said):
    with pytest.raises(InputError, match=said):
        catalogue.find(kind, name)


def test_clusters_of_others_need_not_be_whole_to_be_searched(tmp_path):
    (tmp_path / "clusters").mkdir()
    for name, text in {"text": "node", "list": "node: [1]", "no": "node: {}"}.items():
        (tmp_path / "clusters" / f"{name}.yaml").write_text(text)
    with (
        catalogue.catalogue_overlay(tmp_path),
        pytest.raises(
            InputError, match=r"clusters with it: workstation-pcie-4x4090, 1xrtx-4090 to 8xrtx-4090$"
        ),
    ):
        catalogue.find(CatalogueKind.CLUSTER, "rtx-4090")


def test_nothing_near_points_to_the_list():
    with pytest.raises(InputError, match=r'unknown link "zzzz" \(see: syncwall show links\)'):
        catalogue.find(CatalogueKind.LINK, "zzzz")


def test_a_folder_is_looked_at_first_without_touching_the_environment(tmp_path):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "mine.yaml").write_text("")
    before = dict(os.environ)
    with catalogue.catalogue_overlay(tmp_path):
        assert "mine" in catalogue.names(CatalogueKind.LINK)
        assert dict(os.environ) == before
    assert "mine" not in catalogue.names(CatalogueKind.LINK)
    assert dict(os.environ) == before


def test_folders_of_one_thread_are_not_those_of_another(tmp_path):
    (tmp_path / "links").mkdir()
    with catalogue.catalogue_overlay([tmp_path]), ThreadPoolExecutor(1) as other:
        assert catalogue.added_folders() == (tmp_path,)
        assert other.submit(catalogue.added_folders).result() == ()
