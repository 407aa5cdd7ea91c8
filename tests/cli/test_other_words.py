"""Flags as other programs call them."""

import pytest

from syncwall.cli import main, other_words
from syncwall.cli.flags import flags_of
from syncwall.cli.other_words import ours
from syncwall.cli.predict import predict

KNOWN = {name for flag in flags_of(predict) for name in (flag.short, flag.name)}


def test_what_is_to_be_written_is_a_flag_and_what_is_not_is_none():
    assert set(other_words._WORDS) <= KNOWN
    named = [f"--{word}" for words in other_words._WORDS.values() for word in words.split()]
    assert len(named) == len(set(named))
    assert not set(named) & KNOWN


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--tensor-model-parallel-size", "--tp"),
        ("--overlap-grad-reduce", "--overlap-gradients"),
        ("--per_device_train_batch_size", "--micro-batch"),
        ("--dtype", "--precision"),
        ("--nonsense", None),
    ],
)
def test_names_of_frameworks_are_known(word, flag):
    assert ours(word) == flag


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--world-size", "write `--gpus N`"),
        ("--zero-stage", "write `--shard ddp|zero1|zero2|fsdp|zero3`"),
        ("--lora-rank", 'write `--lora "{KEY: VALUE}"`'),
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
