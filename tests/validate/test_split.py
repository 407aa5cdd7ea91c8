import pytest

from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.validate.table import (
    STALLED,
    RowUse,
    corpus_part,
    organisation_of,
    read_tables,
    row_doubt,
)
from tests.validate.samples import CORPUS, needs_corpus, row

CALIBRATION = {
    "mosaic-llm-foundry",
    "dgxc-benchmarking",
    "bloom-prequel",
    "internevo",
    "stas-ml-engineering",
    "aleph-alpha-layouts-2023",
}
HALVES = {"hf-ultrascale-playbook", "vtrain-ground-truth"}


def test_whole_sources_for_calibration_are_these():
    rows = read_tables()
    fitted = {one.source for one in rows if corpus_part(one) is RowUse.CALIBRATION}
    assert fitted == CALIBRATION - {"aleph-alpha-layouts-2023"}
    assert {corpus_part(one) for one in rows} == {RowUse.CALIBRATION, RowUse.STRUCTURE}


def test_the_list_is_the_one_that_was_agreed_on():
    lists = read_document(BUILT_IN / "validation" / "split.yaml").value
    assert set(lists) == {"calibration", "structure", "organisations", "composed", "halves"}
    assert not set(lists["calibration"]) & set(lists["structure"])
    contacts = {row.source for row in read_tables(BUILT_IN / "first_contacts")}
    assert set(lists["calibration"]) - contacts == CALIBRATION
    assert set(lists["halves"]) == HALVES
    assert set(lists["composed"]) == {"vtrain-ground-truth"}


@needs_corpus
def test_of_the_playbook_every_second_group_of_model_and_gpus_may_be_read():
    source = "hf-ultrascale-playbook"
    groups = sorted(
        {(one.text("model"), one.whole("gpus")) for one in read_tables(CORPUS) if one.source == source}
    )
    lists = read_document(BUILT_IN / "validation" / "split.yaml").value
    assert [tuple(group) for group in lists["halves"][source]] == groups[::2]


def test_a_source_that_nobody_listed_is_a_judge():
    assert corpus_part(row(source="somebody")) is RowUse.JUDGE
    assert RowUse.JUDGE.is_held_out


@needs_corpus
def test_of_the_second_collection_these_judge():
    rows = read_tables(CORPUS.parent / "runs_second")
    judges = {one.source for one in rows if corpus_part(one) is RowUse.JUDGE}
    assert judges == {
        "alibaba-megatron-llama",
        "lightning-thunder",
        "torchtune-readme",
        "xtuner-a100-speed",
        "ms-swift-a800",
        "easycontext-a100",
        "swiss-ai-alps",
    }
    assert not any(corpus_part(one) is RowUse.JUDGE for one in read_tables(CORPUS))


def test_an_organisation_may_have_several_sources():
    assert organisation_of("nemo-docs-24.07") == organisation_of("dgxc-benchmarking") == "nvidia"
    assert organisation_of("ibm-fms-fsdp") == "ibm-fms-fsdp"


@needs_corpus
def test_the_two_large_sources_are_halved_by_group_and_all_others_are_whole():
    parts: dict[tuple[str, ...], set[RowUse]] = {}
    for one in read_tables(CORPUS):
        group: tuple[str, ...] = (one.source,)
        if one.source == "hf-ultrascale-playbook":
            group = (one.source, one.text("model"), one.text("gpus"))
        elif one.source == "vtrain-ground-truth":
            several = one.whole("gpus") > 8
            group = (one.source, one.text("model") if several else "single node")
        parts.setdefault(group, set()).add(corpus_part(one))
    assert all(len(found) == 1 for found in parts.values())
    read = {group for group, found in parts.items() if found == {RowUse.CALIBRATION}}
    assert {group[0] for group in read} | {"aleph-alpha-layouts-2023"} == CALIBRATION | HALVES
    groups = [group for group in parts if group[0] == "hf-ultrascale-playbook"]
    assert sum(group in read for group in groups) == pytest.approx(len(groups) / 2, abs=1)
    models = {group for group in read if group[0] == "vtrain-ground-truth"}
    assert {group[1] for group in models} == {"GPT-3.6B", "GPT-39.1B"}
    assert parts["vtrain-ground-truth", "single node"] == {RowUse.COMPOSED}


def test_coarse_rows_are_in_doubt_with_their_flags():
    assert row_doubt(row(grade="A")) is None
    assert row_doubt(row(grade="C", flags="parallelism not given")) == "parallelism not given"
    assert row_doubt(row(grade="C")) == "graded as coarse or doubtful"


def test_listed_rows_are_in_doubt_with_the_reason_of_their_group():
    listed = row_doubt(row(id="hf-8.86B-g128-dp16-tp8-pp1-mb16-ga1-z1-1"))
    assert listed is not None
    assert "within a factor of two" in listed


def test_a_stall_is_a_rule_of_one_cluster():
    slow = {"tp": "8", "pp": "2", "dp": "1", "gbs": "8", "mbs": "1", "step_time_s": "60"}
    assert row_doubt(row(framework="nanotron", **slow)) == STALLED
    assert row_doubt(row(framework="Megatron-LM", **slow)) is None
    assert row_doubt(row(framework="nanotron", **slow | {"step_time_s": "2"})) is None
