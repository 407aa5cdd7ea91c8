"""What is wrong with a value is said in our words, with what to write, whatever key it stands at."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

import syncwall as sw
from syncwall.cli import main
from syncwall.cli.commands import commands, types_of
from syncwall.cli.flags import Flag, flags_of, parsed
from syncwall.cli.run_flags import RunFlags
from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.describe.stated import StatedRun
from syncwall.problems import InputError

WRONG = [
    *("x", "", "1.5", b"x", 1.5, -1, 0, 10**30, float("inf"), float("nan"), True, None),
    *([1, 2], ["a"], [[1]], [{"a": 1}], {"a": 1}, {}, {1: 2}),
]
TEXTS = ["x", "", "1.5", "-1", "true", "[1, 2]", "[[1]]", "[{a: 1}]", "{a: 1}", "{1: 2}", "1e400", "null"]
PYDANTIC = re.compile(
    r"\binput\b|valid (dictionary|tuple|string|path|integer|number)|instance of|unable to|should |"
    r"value error|validation error|field required|extra inputs|<class",
    re.IGNORECASE,
)
"""Phrases of pydantic's messages."""
_UNREAD = ("__main__", "capture", "measure", "callbacks", "startup")


def descriptions() -> list[type[Description]]:
    """Every type that somebody may fill in: files, flags, requests of pages."""
    for module in pkgutil.walk_packages(sw.__path__, "syncwall."):
        if not any(part in module.name for part in _UNREAD):
            importlib.import_module(module.name)
    return sorted(set(_below(Description)), key=lambda one: (one.__module__, one.__name__))


def _below(described: type[Description]) -> Iterator[type[Description]]:
    for one in described.__subclasses__():
        yield one
        yield from _below(one)


def test_no_key_of_any_type_answers_with_a_message_of_pydantic():
    tried, said = 0, []
    for described in descriptions():
        for name, field in described.model_fields.items():
            for value in WRONG:
                tried += 1
                try:
                    described.model_validate({field.alias or name: value}, context={"in_file": True})
                except ValidationError as error:
                    said += [(described.__name__, name, value, one) for _, one in faults_of(error, described)]
    assert tried > 10_000
    assert [one for one in said if PYDANTIC.search(one[-1])] == []


@pytest.mark.parametrize("command", sorted(commands()))
def test_no_flag_answers_with_a_message_of_pydantic(command):
    types = types_of(command)
    shared = ("run",) if command != "predict" else ()  # flags of a run are the same everywhere
    for flag in flags_of(*types):
        for text in TEXTS if flag.path[:1] != shared else ():
            said = [one.replace(text, "") for one in messages(types, flag, text)]
            assert not [one for one in said if PYDANTIC.search(one)], (flag.name, text)


def messages(types: tuple[type[Description], ...], flag: Flag, text: str) -> list[str]:
    """What is wrong with a flag of this text, as the terminal makes run and question of it."""
    try:
        values = parsed(flags_of(*types), [f"{flag.name}={text}" if flag.is_named else text])
        run = values.pop("run", {})
        if isinstance(run, dict):
            RunFlags.model_validate(run)
            keys = {name: one for name, one in run.items() if name not in ("file", "settings")}
            StatedRun.of_keys({"model": "gpt2", "cluster": "dgx-h100", **keys}).run() if keys else None
        for one in types:
            one.model_validate({name: value for name, value in values.items() if name in one.model_fields})
    except InputError as error:
        return [str(error)]
    except ValidationError as error:
        return [said for one in types for _, said in faults_of(error, one)]
    return []


def test_python_says_it_in_the_same_words():
    with pytest.raises(ValidationError) as caught:
        sw.Layout(lora="x", kept_gathered_inputs=-1)
    assert [one["msg"] for one in caught.value.errors()] == [
        '"x" is not a mapping of keys: write for example {rank: 16}',
        '"-1" is out of range: write at least 0',
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layout: {lora: x}", '"x" is not a mapping of keys: write for example {rank: 16}'),
        ("layout: {qlora: true}", 'unknown key "qlora": write `lora: {rank: 16}`'),
        (
            "cluster: {base: dgx-h100, node: {nics: 1}}",
            '"1" is not a mapping of keys: write for example {count',
        ),
        (
            "cluster: {base: dgx-h100, fabric: {tiers: 3}}",
            '"3" is not a list: write for example [{name: NAME}]',
        ),
    ],
)
def test_a_mapping_is_shown_by_an_example(tmp_path, capsys, text, said):
    file = tmp_path / "run.yaml"
    before = "" if "cluster" in text else "cluster: dgx-h100\n"
    file.write_text(f"model: llama-3.1-8b\n{before}{text}\n")
    assert main(["predict", str(file)]) == 2
    assert said in capsys.readouterr().err


def layout(*words: str) -> sw.Layout:
    """The layout that these flags of `predict` state."""
    values = parsed(flags_of(*types_of("predict")), ["--model", "gpt2", "--cluster", "dgx-h100", *words])
    return RunFlags.model_validate(values["run"]).stated().run().layout


def test_adapters_are_written_as_people_call_them():
    assert layout("--lora", "16") == layout("--lora", "{rank: 16}") == layout("--lora-rank", "16")
    assert layout("--qlora") == layout("--lora", "{rank: 16, weights: nf4}")
    assert layout("--qlora=64") == layout("--lora", "{rank: 64, weights: nf4}")


@pytest.mark.parametrize("words", [("--qlora", "--lora", "32"), ("--lora=32", "--qlora")])
def test_adapters_are_stated_once(words):
    """The later of two used to win, so that `--qlora --lora 32` was priced without NF4."""
    with pytest.raises(InputError, match="--qlora and --lora both state lora"):
        layout(*words)


def test_words_are_listed_without_brackets():
    listed = layout("--recompute", "selective", "--recompute-modules", "layernorm, moe_act")
    assert listed.recompute_modules == ("layernorm", "moe_act")
    assert sw.Layout(frozen="encoder, projector").frozen == ("encoder", "projector")


def test_compile_is_what_fuses_kernels():
    for words, kernels in (
        ("--compile", "fused"),
        ("--compile=false", "eager"),
        ("--torch-compile", "fused"),
    ):
        values = parsed(flags_of(*types_of("predict")), [words])
        assert values["run"]["software"] == {"kernels": kernels}
