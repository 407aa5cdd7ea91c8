"""Keys and flags as other programs call them."""

import pytest
from pydantic import ValidationError

import syncwall as sw
from syncwall.cli import main
from syncwall.describe.choice import WORDS, ours
from syncwall.describe.settings.megatron import TABLE
from tests.cli.flags import every_flag

VERBS = ("predict", "plan fabric")
KNOWN = {name for verb in VERBS for flag in every_flag(verb) for name in (flag.short, flag.name)}


def test_what_is_to_be_written_is_a_flag_and_what_is_not_is_none():
    assert {f"--{key.replace('_', '-')}" for key in WORDS} <= KNOWN
    named = [f"--{word}" for words in WORDS.values() for word in words.split()]
    assert len(named) == len(set(named))
    assert not set(named) & KNOWN


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--tensor-model-parallel-size", "tp"),
        ("--overlap-grad-reduce", "overlap_gradients"),
        ("--per_device_train_batch_size", "micro_batch"),
        ("--dtype", "precision"),
        ("--nonsense", None),
    ],
)
def test_names_of_frameworks_are_known(word, flag):
    assert ours(word) == flag


PARALLELISM = ["tp", "pp", "cp", "ep", "etp", "micro_batch", "global_batch", "sp"]
OVERLAP = [f"overlap_{what}" for what in ("gradients", "parameters", "tp", "ep")]


@pytest.mark.parametrize(
    ("key", "name"),
    [(row.field, row.key) for row in TABLE.rows if row.field in (*PARALLELISM, *OVERLAP)],
)
def test_those_that_settings_of_megatron_are_read_by_are_among_them(key, name):
    assert ours(name) == key


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--world-size", "write `--gpus N`"),
        ("--zero-stage", "write `--shard ddp|zero1|zero2|fsdp|zero3`"),
        ("--peft", 'write `--lora "{rank: 16}"`'),
    ],
)
def test_the_message_says_what_to_write(word, said, capsys):
    assert main(["predict", word, "8"]) == 2
    assert capsys.readouterr().err == f'unknown flag "{word}": {said}\n'


def test_thousands_are_written_out(capsys):
    words = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--seq", "128k"]
    assert main(["predict", *words]) == 2
    said = '--seq: "128k" is not a whole number: write 131072 or 128000\n'
    assert capsys.readouterr().err == said


def test_keys_of_a_file_too(tmp_path, capsys):
    file = tmp_path / "run.yaml"
    file.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nseq_length: 8192\nlayout: {zero_stage: 3}\n")
    assert main(["predict", str(file)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f'{file}:3:1  unknown key "seq_length": write `seq`'
    assert said[1] == f'{file}:4:10  unknown key "zero_stage": write `shard`'


@pytest.mark.parametrize(("key", "ours"), [("tp", "tp"), ("batch_size", "global_batch")])
def test_a_key_of_the_layout_that_stands_outside_of_it(tmp_path, capsys, key, ours):
    file = tmp_path / "run.yaml"
    file.write_text(f"model: llama-3.1-8b\ncluster: dgx-h100\n{key}: 8\n")
    assert main(["predict", str(file)]) == 2
    said = f'{file}:3:1  unknown key "{key}": write `{ours}` under `layout`\n'
    assert capsys.readouterr().err == said


RUN = sw.Run(model="llama-3.1-8b", cluster="dgx-h100")


@pytest.mark.parametrize(
    ("made", "stated", "said"),
    [
        (sw.Layout, {"tensor_parallel_size": 8}, 'key "tensor_parallel_size": write `tp`'),
        (sw.Run, {**dict(RUN), "tp": 8}, 'key "tp": write `tp` under `layout`'),
        (RUN.changed, {"batch_size": 8}, 'key "batch_size": write `global_batch`'),
    ],
)
def test_names_in_python_too(made, stated, said):
    with pytest.raises(ValidationError) as caught:
        made(**stated)
    assert [one["msg"] for one in caught.value.errors()] == [f"unknown {said}"]


def test_what_is_wrong_beside_them_is_still_said():
    stated = {"dtype": "bf16", "tp": 0.5}
    with pytest.raises(ValidationError) as caught:
        sw.Layout(**stated)
    assert [one["loc"] for one in caught.value.errors()] == [("tp",), ("dtype",)]


def test_a_number_in_the_place_of_a_name_is_said_in_plain_words(capsys):
    assert main(["predict", "--model", "llama-3.1-8b", "--cluster", "7", "--gpus", "8"]) == 2
    assert capsys.readouterr().err == '--cluster: "7" is not a name or a mapping of keys\n'
