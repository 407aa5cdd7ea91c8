"""Files are told apart by their content; nothing but an InputError comes out of a bad one."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from syncwall.describe.settings import FORMATS, read_settings
from syncwall.problems import InputError
from tests.describe.stated import run_with

ROOT = Path(__file__).parents[3]
WHOLE = ("trainer_args.json", "nemo_llama2_70b.yaml", "megatron_deepseek_v3.sh")
SETTINGS = ROOT / "tests" / "data" / "settings"
FILES = sorted(path for path in SETTINGS.iterdir() if path.is_file())
FILES += [SETTINGS / "whole" / name for name in WHOLE]
EXAMPLES = sorted((ROOT / "examples" / "settings").iterdir())
MANY = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_read_without_a_note(path):
    found = read_settings(path)
    assert found.format == path.stem
    assert not found.notes


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("zero2.json", "settings", "deepspeed"),
        ("titan_405b.toml", "job.conf", "torchtitan"),
        ("megatron_moe.sh", "args.txt", "megatron"),
        ("accelerate_fsdp1.yaml", "config", "accelerate"),
        ("zero2.json", "ds.yaml", "deepspeed"),
    ],
)
def test_the_name_of_a_file_does_not_matter(tmp_path, source, name, expected):
    path = tmp_path / name
    path.write_text((ROOT / "tests" / "data" / "settings" / source).read_text())
    assert read_settings(path).format == expected


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("run.yaml", "model: gpt3-175b\ncluster: dgx-a100\n", "is a run file"),
        ("a.yaml", "distributed_type: FSDP\nbf16: {enabled: true}\n", "deepspeed or of accelerate"),
        ("a.json", '{"hidden_size": 4096}', "is not a known settings file"),
        ("a.toml", "[tool.ruff]\nline-length = 100\n", "is not a known settings file"),
        ("a.sh", "torchrun --nnodes 2 train.py --lr 1e-4", "is not a known settings file"),
        ("a.json", "[1, 2]", "is not a known settings file"),
        ("a.json", "", "is empty"),
        ("a.json", '{"bf16": ', "not YAML"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_settings(path)
    assert caught.value.problems[0].file == str(path)
    assert caught.value.problems[0].line >= 1


def test_a_file_that_is_missing_or_no_text(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_settings(tmp_path / "no.toml")
    (tmp_path / "a.toml").write_bytes(b"[parallelism]\n\xff")
    with pytest.raises(InputError, match=r"a.toml:2:1  byte 0xff is not UTF-8"):
        read_settings(tmp_path / "a.toml")


def survives(path: Path) -> None:
    """Read the file and make a run of it: it works or says what is wrong."""
    flags = {"model": "mixtral-8x7b", "cluster": "dgx-h100", "nodes": "2", "gpus_per_node": "8"}
    with contextlib.suppress(InputError):
        run_with(None, flags, read_settings(path))


@pytest.mark.parametrize("suffix", [*(one.suffix for one in FORMATS.values()), ""])
@MANY
@given(st.text(max_size=200))
@example("x" * 4000)
@example("--a=$A --micro-batch-size ${B:-${C}} A=$A$A$A$A$A$A$A$A B=$A")
@example("[a]\nb=" + "[" * 2000)
@example("[training]\nlocal_batch_size = " + "9" * 5000)
def test_any_text(suffix, tmp_path, text):
    path = tmp_path / f"file{suffix}"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    survives(path)


@pytest.mark.parametrize("source", [*FILES, *EXAMPLES], ids=lambda path: path.name)
@MANY
@given(st.data())
def test_a_file_with_parts_changed(source, tmp_path, data):
    text = source.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        odd = st.sampled_from(["0", "-1", "true", '"auto"', "null", "{}", "[]", "9" * 30, "1.5", ":"])
        text = text[:start] + data.draw(st.one_of(st.text(max_size=6), odd)) + text[end:]
    path = tmp_path / source.name
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    survives(path)


@pytest.mark.parametrize("source", [*FILES, *EXAMPLES], ids=lambda path: path.name)
@MANY
@given(st.data())
def test_a_file_with_a_value_changed(source, tmp_path, data):
    """Every value in turn is another number, word or kind of thing."""
    words = source.read_text().split(" ")
    at = data.draw(st.integers(0, len(words) - 1))
    odd = ["0", "1", "3", "-1", "7", '"x"', "true", "1e3", "nan", '"auto"', "[1]", "{a: 1}", "$X"]
    words[at] = data.draw(st.sampled_from(odd)) + ("\n" if "\n" in words[at] else "")
    path = tmp_path / source.name
    path.write_text(" ".join(words))
    survives(path)
