"""A law: settings that were written and read back predict the very same step."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from syncwall.answer import Prediction, predict
from syncwall.describe.layout import Layout, Shard
from syncwall.describe.settings import FORMATS, SettingsText, read_settings, written
from tests.describe.settings.layouts import IN_THE_SCRIPT
from tests.describe.settings.runs import FRAMEWORKS, WORDS, runs
from tests.describe.stated import run_with

LEAST = 200
"""Runs of every format."""
TRIED = 4000


def said(prediction: Prediction, name: str) -> SettingsText:
    run = prediction.run
    return written(
        run.layout,
        name,
        seq=run.seq,
        nodes=run.nodes,
        gpus_per_node=run.gpus_per_node,
        model=run.model,
        software=run.software,
    )


def in_the_script(name: str, layout: Layout) -> set[str]:
    """What the training script says and no settings can."""
    plain = name == "accelerate" and layout.shard == Shard.DDP  # which has no section of its own
    return IN_THE_SCRIPT[name] | ({"recompute"} if plain else set())


def expressible(name: str) -> Iterator[tuple[dict[str, Any], Prediction, SettingsText]]:
    """Runs for which a format has words, all but those of the training script."""
    for asked, prediction in islice(runs(name), TRIED):
        found = said(prediction, name)
        fields = {line.partition(":")[0] for line in found.unsaid}
        if fields <= in_the_script(name, prediction.run.layout):
            yield asked, prediction, found


def read_again(path: Path, asked: dict[str, Any], unsaid: tuple[str, ...]) -> Prediction:
    """The prediction of a settings file, with the machine and the script's part as flags."""
    flags = {key: str(asked[key]) for key in ("model", "cluster", "nodes", "gpus_per_node")}
    if asked["software"].date is not None:
        flags["software.date"] = asked["software"].date
    for line in unsaid:
        key, _, value = line.partition(": ")
        flags[key if key == "seq" else f"layout.{key}"] = value
    return predict(run_with(None, flags, read_settings(path)))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_settings_read_back_predict_the_same_step(name, tmp_path):
    path = tmp_path / f"settings{FORMATS[name].suffix}"
    seen: dict[str, set[Any]] = {field: set() for field in WORDS[name]}
    count = 0
    for asked, prediction, found in islice(expressible(name), LEAST):
        path.write_text(found.text)
        again = read_again(path, asked, found.unsaid)
        context = f"{asked}\n{found.text}"
        assert again.run.software.framework == FRAMEWORKS[name]
        assert again.step_s == pytest.approx(prediction.step_s, rel=1e-9), context
        memory = prediction.memory.by_cause()
        assert again.memory.by_cause() == pytest.approx(memory, rel=1e-9), context
        for field, values in seen.items():
            values.add(getattr(prediction.run.layout, field))
        count += 1
    assert count == LEAST
    for field, values in seen.items():  # what the law was tried with
        assert set(WORDS[name][field]) <= values, field
