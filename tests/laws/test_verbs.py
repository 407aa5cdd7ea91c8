"""Every verb answers the same by Python, terminal and page: one question, one object."""

import json
from pathlib import Path
from typing import Any

import pytest

from syncwall.ask.verbs import ON_PAGES, VERBS, question_type
from syncwall.cli import main
from syncwall.cli.commands import types_of
from syncwall.cli.flags import flags_of
from syncwall.web.answers.asking import answered
from syncwall.web.questions import AskedQuestion

ROOT = Path(__file__).parents[2]
RUN = {
    "model": "llama-3.1-8b",
    "cluster": "dgx-h100",
    "nodes": 2,
    "seq": 4096,
    "layout": {"tp": 2, "shard": "fsdp", "micro_batch": 1, "global_batch": 64},
}
SAMPLES: dict[str, dict[str, Any]] = {
    "predict": {"run": RUN, "tokens": "1T", "job": {"spares": 1, "simulations": 100}},
    "compare": {"run": RUN, "against": ["tp=4", "cluster=dgx-b200"]},
    "plan layouts": {"run": {**RUN, "layout": {"cp": 1, "pp": 1, "global_batch": 64}}, "top": 2},
    "plan wall": {"run": RUN, "most": 64},
    "plan network": {"run": RUN, "efficiency": 0.8, "strong": True},
    "plan fabric": {"run": RUN, "kind": "fat-tree-2", "oversubscription": "2:1"},
    "plan placement": {"file": str(ROOT / "examples/placement/two-jobs.yaml"), "qps": 4},
    "explain": {"files": [str(ROOT / "examples/explain/nccl.log")]},
    "validate": {"path": str(ROOT / "examples/runs.csv")},
}
"""A question for each verb, as JSON."""


def words(verb: str, stated: dict[str, Any]) -> list[str]:
    """The same question as flags, found by the paths that flags fill in."""
    by_path = {flag.path: flag for flag in flags_of(*types_of(verb))}
    found: list[str] = []
    for path, value in leaves(stated):
        flag = by_path[path]
        if value is True:
            found.append(flag.short)
            continue
        each = [str(one) for one in value] if isinstance(value, list) else [str(value)]
        found += [*([flag.short] if flag.is_named else []), *each]
    return found


def leaves(stated: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for key, value in stated.items():
        here = (*path, key)
        found += leaves(value, here) if isinstance(value, dict) else [(here, value)]
    return found


def by_terminal(verb: str, capsys: Any) -> Any:
    code = main([*verb.split(), *words(verb, SAMPLES[verb]), "--json"])
    assert code in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_every_verb_has_a_sample():
    assert list(SAMPLES) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_python_and_terminal_answer_the_same(verb, capsys):
    answer = question_type(verb).of(SAMPLES[verb]).answer()
    assert json.loads(json.dumps(answer.to_dict())) == by_terminal(verb, capsys)
    assert main([*verb.split(), *words(verb, SAMPLES[verb]), "--json"]) == answer.exit_code


@pytest.mark.parametrize("verb", ON_PAGES)
def test_a_page_answers_what_the_terminal_does(verb, capsys):
    page = answered(verb, AskedQuestion.model_validate(SAMPLES[verb]))
    assert json.loads(json.dumps(page["record"])) == by_terminal(verb, capsys)
    assert page["html"]


@pytest.mark.parametrize("verb", ON_PAGES)
def test_a_page_reads_no_files(verb, tmp_path):
    from syncwall.problems import InputError

    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(RUN))
    with pytest.raises(InputError, match="run: files are not read here"):
        answered(verb, AskedQuestion.model_validate({"run": str(file)}))
    with pytest.raises(InputError, match="calibration: files are not read here"):
        answered(verb, AskedQuestion.model_validate({"run": RUN, "calibration": [str(file)]}))
