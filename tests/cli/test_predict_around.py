"""Steps of reinforcement learning and islands by flags, files and Python: one question, one answer.

Broken files end in words, other verbs refuse what they do not answer.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cli import main
from syncwall.describe.files import SECTIONS, RunFile, Section
from syncwall.describe.stated import StatedRun
from syncwall.problems import Problem
from tests.cli.test_broken_files import (
    Breaker,
    misspelt_key,
    open_bracket,
    repeated_line,
    strange_character,
    tab_for_indentation,
    wrong_kind,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {"rl": EXAMPLES / "rl" / "grpo-8b.yaml", "islands": EXAMPLES / "islands/intellect-1.yaml"}
ASKED = {"rl": sw.predict_rl, "islands": sw.predict_islands}
KINDS: dict[str, type[Section]] = {"rl": sw.RlStep, "islands": sw.Islands}
ALL_FLAGS = [
    "--model",
    "llama-3.1-8b",
    "--cluster",
    "dgx-h100",
    "--nodes",
    "1",
    "--seq",
    "4096",
    "--pp",
    "2",
    "--virtual-stages",
    "1",
    "--shard",
    "zero1",
    "--micro-batch",
    "1",
    "--recompute",
    "none",
    "--gradient-dtype",
    "bf16",
    "--kept-gradient-dtype",
    "bf16",
    "--framework",
    "megatron-core",
    "--date",
    "2025-07",
]
"""The run of the first file."""


@pytest.fixture
def said(capsys):
    """What `predict` says with --json."""

    def asked(*words: object) -> Any:
        assert main(["predict", *map(str, words), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return asked


@pytest.fixture
def refused(capsys):
    """What a call that is refused prints."""

    def asked(*words: object) -> str:
        assert main([*map(str, words)]) == 2
        return str(capsys.readouterr().err)

    return asked


def parted(path: Path, key: str, folder: Path) -> tuple[Path, Path]:
    """The run and the section of a run file, each in a file of its own."""
    whole = yaml.safe_load(path.read_text())
    section = whole.pop(key)
    run, inside = folder / "run.yaml", folder / f"{key}.yaml"
    run.write_text(yaml.safe_dump(whole))
    inside.write_text(yaml.safe_dump(section))
    return run, inside


@pytest.mark.parametrize("key", FILES)
def test_one_file_two_files_words_and_python_say_the_same(key, said, tmp_path):
    one = said(FILES[key])
    run, section = parted(FILES[key], key, tmp_path)
    assert said(run, f"--{key}", section) == one
    words = json.dumps(yaml.safe_load(section.read_text()))
    assert said(run, f"--{key}", words) == one
    ask = ASKED[key]
    assert ask(FILES[key]).to_dict() == one
    assert ask(run, section).to_dict() == one
    assert ask(sw.run(run), section).to_dict() == one
    assert ask(run, str(section)).to_dict() == one


def test_the_run_may_be_flags(said, tmp_path):
    _, section = parted(FILES["rl"], "rl", tmp_path)
    assert said(*ALL_FLAGS, "--rl", section) == said(FILES["rl"])


def test_the_section_may_be_python(said):
    rl = sw.RlStep(
        prompts=64,
        generations=32,
        prompt_tokens=150,
        response_tokens=795,
        tokens_per_s_per_gpu=3509,
        mini_batches=4,
        logprob_micro_batch=4,
    )
    run = sw.Run(
        model="llama-3.1-8b",
        cluster="dgx-h100",
        nodes=1,
        seq=4096,
        layout=sw.Layout(
            pp=2,
            virtual_stages=1,
            shard="zero1",
            micro_batch=1,
            recompute="none",
            gradient_dtype="bf16",
            kept_gradient_dtype="bf16",
        ),
        software=sw.Software(framework="megatron-core", date="2025-07"),
    )
    assert sw.predict_rl(run, rl).to_dict() == said(FILES["rl"])


def test_training_is_so_many_times_what_predict_says_of_the_update(said):
    step = said(FILES["rl"])
    layout = step["run"]["layout"]
    batch = ["--global-batch", layout["global_batch"], "--document", layout["document_tokens"]]
    update = said(*ALL_FLAGS, *batch)
    assert {key: update[key] for key in step["update"]} == step["update"]
    assert update["run"] == step["run"]
    seconds = {one["phase"]: one["seconds"] for one in step["phases"]}
    assert seconds["training"] == step["rl"]["mini_batches"] * update["step_s"]
    assert step["step_s"] == pytest.approx(sum(seconds.values()), rel=1e-12)
    assert sum(one["share"] for one in step["phases"]) == pytest.approx(1.0)
    for one in step["phases"]:
        if one["ledger_s"] is not None:
            assert sum(one["ledger_s"].values()) == pytest.approx(one["seconds"])


def test_the_inner_step_is_what_predict_says_of_an_island(said, tmp_path):
    run, _ = parted(FILES["islands"], "islands", tmp_path)
    found, inner = said(FILES["islands"]), said(run)
    assert {key: inner[key] for key in found["inner"]} == found["inner"]
    assert found["run"] == inner["run"]
    assert found["inner_s"] == inner["step_s"]
    every = found["islands"]["every"]
    assert found["step_s"] == pytest.approx(found["inner_s"] + found["exposed_s"] / every)


def test_keys_of_a_flag_override_the_file(said):
    before, after = said(FILES["rl"]), said(FILES["rl"], "--rl", "{tokens_per_s_per_gpu: 7018}")
    assert after["rl"] == before["rl"] | {"tokens_per_s_per_gpu": 7018}
    assert after["phases"][0]["seconds"] == pytest.approx(before["phases"][0]["seconds"] / 2)
    others = [[one["seconds"] for one in step["phases"][1:]] for step in (before, after)]
    assert others[0] == others[1]
    assert after["update"] == before["update"]


def test_what_does_not_fit_ends_with_1(capsys):
    assert main(["predict", str(FILES["rl"]), "--model", "llama-3.1-70b"]) == 1
    assert "Verdict   does not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--global-batch", "64"], "--global-batch is not for a step with `rl`"),
        (["--document", "64"], "--document is not for a step with `rl`"),
        (["--tokens", "1T"], "--tokens is not for a step with `rl`"),
        (["--job.spares", "2"], "--job.spares is not for a step with `rl`"),
        (["--measured", "9s"], "--measured is not for a step with `rl`"),
        (["--fabric", "tiers"], "--fabric is not for a step with `rl`"),
        (["--islands", "{count: 2, every: 1, link: 1Gb/s}"], "islands and rl are two questions"),
        (["--seq", "512"], "samples of 945 tokens do not fit into sequences of 512: write `seq`"),
        (["--rl", "{prompts: 0}"], "--rl:1:2  0 is out of range: write 1 to"),
        (["--rl", "{promts: 4}"], '--rl:1:2  unknown key "promts"; did you mean "prompts"?'),
        (["--rl", "[1]"], "[1]: cannot be read"),
        (["--rl", "{mini_batches: 4000}"], "2,048 samples are not enough for so many"),
        (["--rl", "{one_step_off: true}"], "`one_step_off` needs GPUs that only generate"),
        (["--rl", "{prompts: 10000000, generations: 100000}"], "cannot be its batch"),
    ],
)
def test_what_is_refused(words, message, refused):
    assert message in refused("predict", FILES["rl"], *words)


def test_a_measured_speed_and_a_program_are_refused(refused, tmp_path):
    run, section = parted(FILES["rl"], "rl", tmp_path)
    run.write_text(run.read_text() + "measured: 9 s\n")
    assert "`measured` is not for a step with `rl`" in refused("predict", run, "--rl", section)
    work = EXAMPLES / "capture" / "hybrid.work.json.gz"
    words = ("--work", work, "--cluster", "dgx-h100", "--rl", section)
    assert "--rl is for descriptions, not for --work" in refused("predict", *words)


@pytest.mark.parametrize("verb", ["plan layouts", "plan wall", "compare", "show run", "report"])
@pytest.mark.parametrize("key", FILES)
def test_other_verbs_say_who_answers(verb, key, refused):
    line = FILES[key].read_text().splitlines().index(f"{key}:") + 1
    files = [FILES[key]] * (2 if verb == "compare" else 1)
    err = refused(*verb.split(), *files)
    assert f'{FILES[key].name}:{line}:1  "{key}" is read by `syncwall predict`' in err


@pytest.mark.parametrize("key", FILES)
def test_python_says_who_answers(key):
    with pytest.raises(sw.InputError, match=f"sw.predict_{key}"):
        sw.predict(FILES[key])
    with pytest.raises(TypeError, match="beside the run"):
        ASKED[key](sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1))


def test_a_job_file_has_no_sections(refused, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("run: {model: llama-3.1-8b, cluster: dgx-h100}\nsteps: 9\nrl: {prompts: 1}\n")
    assert 'job.yaml:3:1  unknown key "rl"' in refused("predict", job)
    said = "job.yaml:1:1  a job is not predicted with `rl`: name a run file"
    assert said in refused("predict", job, "--rl", "{prompts: 1}")


def number_of_a_section(text: str, choose: random.Random) -> str:
    key = "prompts" if "prompts" in text else "every"
    return text.replace(f"{key}: ", f"{key}: {choose.choice(['0 #', '-3 #', '1.5 #', 'many #'])}")


BREAKERS: list[Breaker] = [
    misspelt_key,
    repeated_line,
    tab_for_indentation,
    open_bracket,
    strange_character,
    wrong_kind,
    number_of_a_section,
]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(sorted(FILES)),
    breaker=st.sampled_from(BREAKERS),
    seed=st.integers(0, 2**32),
)
def test_broken_sections_are_refused_with_a_line(key, breaker, seed, tmp_path):
    _, section = parted(FILES[key], key, tmp_path)
    section.write_text(breaker(section.read_text(), random.Random(seed)), encoding="utf-8")
    with pytest.raises(sw.InputError) as raised:
        RunFile().section(KINDS[key], str(section))
    assert all(one.line for one in raised.value.problems)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(sorted(FILES)),
    at=st.floats(0, 1),
    length=st.integers(0, 12),
    junk=st.binary(max_size=12),
)
def test_random_damage_is_read_or_refused_with_a_line(key, at, length, junk, tmp_path):
    """Of a run file; what its answers then are, `bench fuzz descriptions` asks."""
    raw = FILES[key].read_bytes()
    start = int(at * len(raw))
    path = tmp_path / "file.yaml"
    path.write_bytes(raw[:start] + junk + raw[start + length :])
    assert all(one.line for one in problems(path))


def problems(path: Path) -> tuple[Problem, ...]:
    """What is wrong with a run file and its sections."""
    try:
        file = RunFile(path)
        StatedRun(file=file, reads_sections=True).run()
        for one in file.sections:
            file.section(KINDS[one])
    except sw.InputError as error:
        return error.problems
    return ()


def test_every_section_has_its_kind():
    assert sorted(one.section for one in KINDS.values()) == sorted(SECTIONS)
