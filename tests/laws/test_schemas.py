"""Every JSON answer follows its published schema: random questions over all verbs."""

import json
import random
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.cli import main
from syncwall.describe import lookup
from syncwall.records import SCHEMA_VERSION
from syncwall.show.schema import VERBS, schema
from tests.conftest import sampled

ROOT = Path(__file__).parents[2]


def check(verb: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    """True if the answer follows the schema; False if the input is refused."""
    return follows_schema(verb, [*verb.split(), *arguments], capsys)


def follows_schema(verb: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    """The same for words that do not begin with the name of their answer."""
    code = main([*words, "--json"])
    printed = capsys.readouterr()
    if code == 2:
        assert not printed.out
        return False
    answer = json.loads(printed.out, parse_constant=pytest.fail)
    assert (answer["schema_version"], answer["verb"]) == (SCHEMA_VERSION, verb)
    problems = list(VALIDATORS[verb].iter_errors(answer))
    assert not problems, (words, problems[0].json_path, problems[0].message[:300])
    return True


VALIDATORS = {verb: Draft202012Validator(schema(verb)) for verb in VERBS}


def runs(seed: int, most_nodes: int) -> Iterator[list[str]]:
    """Random runs as flags, without end; some of them are impossible."""
    dice = random.Random(seed)
    models, clusters = (
        sorted(catalogue.names(kind)) for kind in (CatalogueKind.MODEL, CatalogueKind.CLUSTER)
    )
    while True:
        flags = ["--model", dice.choice(models), "--cluster", dice.choice(clusters)]
        flags += ["--nodes", str(2 ** dice.randrange(most_nodes.bit_length()))]
        flags += ["--tp", str(dice.choice((1, 1, 2, 4, 8)))]
        if dice.random() < 0.5:
            flags += ["--shard", dice.choice(("ddp", "fsdp", "zero1"))]
        if dice.random() < 0.3:
            flags += ["--pp", str(dice.choice((2, 4)))]
        if dice.random() < 0.6:
            flags += ["--global-batch", str(2 ** dice.randrange(6, 12))]
        yield flags


ASKED = [
    ("predict", 40, 512, []),
    ("predict", 6, 64, ["--tokens", "200B", "--job.simulations", "200"]),
    ("plan layouts", 3, 1, []),
    ("plan wall", 4, 2, ["--most", "1024"]),
    ("plan network", 4, 2, []),
    ("plan fabric", 12, 64, []),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "count", "most_nodes", "more"), [one for asked in ASKED for one in sampled([asked] * 4, 4)]
)
def test_answers_to_random_questions(verb, count, most_nodes, more, request, capsys):
    """69 answers for each change, 207 more weekly; the same questions every time."""
    seed = zlib.crc32(request.node.name.encode())
    asked = (check(verb, flags + more, capsys) for flags in runs(seed, most_nodes))
    assert sum(islice((given for given in asked if given), count)) == count


@pytest.mark.parametrize("kind", lookup.READERS)
def test_answers_of_the_catalogue(kind, capsys):
    """8 kinds: each list, and 9 entries of it."""
    assert check("show", [kind.folder], capsys)
    names = sorted(catalogue.names(kind))
    for name in random.Random(1).sample(names, min(9, len(names))):
        assert check("show", [str(kind), name], capsys)


def test_answers_about_files(capsys):
    for name in ("", "traces", "nccl.log", "topo.txt"):
        assert check("explain", [str(ROOT / "examples" / "explain" / name)], capsys)
    assert check("validate", [str(ROOT / "examples" / "runs.csv")], capsys)
    run = str(ROOT / "examples" / "llama-70b-on-dgx-h100.yaml")
    job = ["--tokens", "1T", "--job.simulations", "200", "--job.start", "2027-01-01"]
    assert check("compare", [run, "--against", "cluster=gb200-nvl72"], capsys)
    assert check("compare", [run, run, *job], capsys)
    for verb, example in (("rl", "rl/grpo-8b.yaml"), ("islands", "islands/intellect-1.yaml")):
        assert follows_schema(f"predict {verb}", ["predict", str(ROOT / "examples" / example)], capsys)
    assert check("show", ["terms"], capsys)
    assert check("show", ["term", "exposed"], capsys)
