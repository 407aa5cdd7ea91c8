"""The article of a run and of a job: what it says is what the predictor says."""

import re
from pathlib import Path

import pytest

from syncwall.answer import predict
from syncwall.cause import Cause
from syncwall.describe import Layout, Run
from syncwall.describe.lookup import cluster
from syncwall.job.completion import finish
from syncwall.problems import InputError
from syncwall.report import ReportRequest, read_any, report_answers
from syncwall.show.article import article
from syncwall.show.blocks import Breakdown, Code, Figure, Heading, Table, Verdict, View
from syncwall.show.draw.curves import has_spread, span_histogram
from syncwall.show.draw.lanes import layer_windows, whole_lanes
from syncwall.show.job import verdict
from syncwall.show.numbers import duration
from syncwall.show.write.whole_files import markdown, page
from syncwall.timeline.streams import Interval

RUN = """# a comment that stays
model: llama-3.1-8b
cluster: dgx-h100
nodes: 4
layout: {shard: fsdp, global_batch: 64}
"""
JOB = "run:\n" + re.sub("^", "  ", RUN, flags=re.MULTILINE) + "\ntokens: 1T\nsimulations: 200\n"


def written(folder: Path, text: str, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def of(path: Path) -> View:
    stated = read_any(path)
    assert isinstance(stated, ReportRequest)
    return article([report_answers(stated)])


def cells(made: View, name: str) -> tuple[str, ...]:
    rows = [row for block in made.blocks if isinstance(block, Table) for row in block.rows]
    return next(row for row in rows if row[0] == name)


def test_a_run_has_the_numbers_of_the_prediction(tmp_path):
    made = of(written(tmp_path, RUN))
    prediction = predict(
        Run(
            model="llama-3.1-8b",
            cluster=cluster("dgx-h100", nodes=4),
            layout=Layout(shard="fsdp", global_batch=64),
        )
    )
    low, high = prediction.step_interval_s
    assert made.title == "Llama 3.1 8B on 32 × NVIDIA H100 SXM5 80 GB"
    assert cells(made, "step")[1:3] == (
        duration(prediction.step_s),
        f"{duration(low)} to {duration(high)}",
    )
    assert cells(made, "tokens/s/GPU")[1] == f"{prediction.tokens_per_s_per_gpu:,.0f}"
    lead = next(block for block in made.blocks if isinstance(block, Verdict))
    assert lead.lines == (prediction.verdict.text,)
    codes = [block.text for block in made.details if isinstance(block, Code)]
    assert codes[0] == RUN.strip()
    assert "syncwall predict " in codes[1]


def test_a_run_has_every_section_and_figure(tmp_path):
    made = of(written(tmp_path, RUN))
    blocks = (*made.blocks, *made.details)
    headings = [block.text for block in blocks if isinstance(block, Heading)]
    assert headings == ["How far it scales", "To repeat it"]
    assert sum(isinstance(block, Figure | Breakdown) for block in made.blocks) == 6


def test_a_job_says_when_it_is_done(tmp_path):
    made = of(written(tmp_path, JOB))
    completion = finish(tmp_path / "run.yaml")
    lead = next(block for block in made.blocks if isinstance(block, Verdict))
    assert lead.lines == (verdict(completion),)
    assert cells(made, "length")[1:4] == tuple(
        f"{seconds / 86400:.3g} days" for seconds in completion.finish_s
    )
    blocks = (*made.blocks, *made.details)
    headings = [block.text for block in blocks if isinstance(block, Heading)]
    assert headings == ["The step", "How far it scales", "To repeat it"]


@pytest.mark.parametrize(
    "text",
    [
        "model: tiny-5m\ncluster: laptop\nseq: 128\n",
        "model: llama-3.1-405b\ncluster: dgx-h100\nnodes: 1\nlayout: {tp: 8}\n",  # does not fit
        "model: deepseek-v3\ncluster: dgx-h100\nnodes: 32\nlayout: {ep: 32, global_batch: 512}\n",
        JOB + "failures: {per_1000_node_days: 0}\n",
        JOB + "failures: {per_1000_node_days: 500000, restart: 10 days}\n",  # never ends
        JOB + "start: 2026-01-01\n",
    ],
)
def test_strange_runs_and_jobs_are_written_too(text, tmp_path):
    made = of(written(tmp_path, text))
    html, text = page(made), markdown(made, "x").text
    words = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL).lower()
    assert not re.search(r"\bnan\b", words)
    assert made.title in text
    assert len(html) < 6e6


def test_text_of_the_file_is_never_markup(tmp_path):
    evil = RUN + "# </code></pre><script>alert(1)</script> ``` <img src=x onerror=1>\n"
    made = of(written(tmp_path, evil))
    assert "<script" not in page(made)
    assert "<img" not in page(made)
    code = markdown(made, "x").text.split("run.yaml")[-1]
    assert all(line.startswith("    ") for line in code.splitlines() if "<script" in line)


def test_what_predict_printed_is_refused_with_what_to_write(tmp_path):
    path = written(tmp_path, '{"verdict": "x", "ledger_s": {}, "run": {}}', "a.json")
    with pytest.raises(InputError, match="write the run file or the job file instead"):
        read_any(path)


def test_what_is_wrong_with_a_run_is_said_with_its_line(tmp_path):
    path = written(tmp_path, RUN.replace("nodes", "nodse"))
    with pytest.raises(InputError, match=r'run.yaml:4:1  unknown key "nodse"'):
        read_any(path)


def test_a_picture_of_many_layers_stays_small():
    names = ("norm", "up", "down")
    intervals = [
        Interval(names[n % 3], Cause.GEMM, "compute", "forward", n * 1e-3, n * 1e-3 + 9e-4)
        for n in range(60_000)
    ]
    drawing = whole_lanes(intervals)
    assert len(drawing.parts) < 1000
    window = layer_windows(intervals)[0]
    assert window.end_s - window.start_s == pytest.approx(3e-3)


def test_equal_lengths_have_no_histogram():
    assert not has_spread([5.0, 5.0, 5.0])
    assert has_spread([1.0, 2.0, float("inf")])
    some = span_histogram([1.0, 2.0, float("inf")], [("P10", 1), ("P50", 2), ("P90", 2)], "x")
    assert "of 2 simulated jobs" in some.label
