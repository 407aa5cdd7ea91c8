import pytest

from syncwall.cli import main
from syncwall.measure.result import Load, MachineLoad
from tests.show.report_samples import lab_records, lab_result, written


@pytest.fixture
def file(tmp_path):
    return written(tmp_path / "places.json", lab_result(lab_records()))


def test_a_page_and_markdown_are_written(file, tmp_path, capsys):
    notes = tmp_path / "notes.md"
    notes.write_text("Seen by *eye*.", encoding="utf-8")
    html, text = tmp_path / "a.html", tmp_path / "a b.md"
    call = ["report", str(file), "--html", str(html), "--markdown", str(text)]
    assert main([*call, "--notes", str(notes)]) == 0
    assert "Seen by <em>eye</em>." in html.read_text(encoding="utf-8")
    assert "## Notes\n\nSeen by *eye*." in text.read_text(encoding="utf-8")
    assert "](a-b-1.svg)" in text.read_text(encoding="utf-8")
    assert (tmp_path / "a-b-1.svg").read_text(encoding="utf-8").startswith("<svg")
    assert capsys.readouterr().out.startswith("Verdict   The same 4 workers")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "write the results to report"),
        (["{folder}/none.json", "--html", "{folder}/a.html"], "none.json: cannot be read"),
        (["{file}", "--html", "{folder}/no/a.html"], "--html: there is no folder"),
        (["{file}", "--html", "{folder}/a.html", "--notes", "{folder}/no"], "no: cannot be read"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(words, message, file, tmp_path, capsys):
    said = [word.format(file=file, folder=tmp_path) for word in words]
    assert main(["report", *said]) == 2
    assert message in capsys.readouterr().err


def test_a_report_without_a_file_is_printed(file, capsys):
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr().out.startswith("Verdict   ")


def test_a_result_of_a_busy_machine_is_refused_unless_it_is_allowed(tmp_path, capsys):
    load = MachineLoad(before=Load(average=9.0, others=0.5, steal=0.0))
    busy = lab_records()[1].model_copy(update={"load": load})
    file = written(tmp_path / "busy.json", lab_result([busy]))
    html = tmp_path / "a.html"
    assert main(["report", str(file), "--html", str(html)]) == 2
    said = capsys.readouterr().err
    assert "busy.json: the machine was busy: other processes used up to 50% of the cores" in said
    assert "--allow-busy" in said
    assert not html.exists()
    assert main(["report", str(file), "--html", str(html), "--allow-busy"]) == 0
    body = html.read_text(encoding="utf-8").partition("</h1>")[2]
    assert body.lstrip().startswith("<p><strong>Warning</strong> The machine was busy")


RUN = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 4\nlayout: {shard: fsdp}\n"


def test_a_run_a_job_and_a_result_make_one_article(file, tmp_path):
    run, job, html = tmp_path / "run.yaml", tmp_path / "job.yaml", tmp_path / "all.html"
    run.write_text(RUN, encoding="utf-8")
    inside = "".join(f"  {line}\n" for line in RUN.splitlines())
    job.write_text(f"run:\n{inside}tokens: 1T\nsimulations: 100\n", encoding="utf-8")
    assert main(["report", str(run), str(job), str(file), "--html", str(html)]) == 0
    text = html.read_text(encoding="utf-8")
    assert "<title>3 results</title>" in text
    assert text.count("<h2 ") == 4
    assert "until it is done</h2>" in text
    assert f"syncwall predict {run}" in text


def test_what_predict_printed_is_not_taken_for_a_run(tmp_path, capsys):
    assert main(["predict", "--model", "tiny-5m", "--cluster", "laptop", "--seq", "64", "--json"]) == 0
    printed = tmp_path / "printed.json"
    printed.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["report", str(printed), "--html", str(tmp_path / "a.html")]) == 2
    assert "write the run file or the job file instead" in capsys.readouterr().err


def test_several_runs_are_compared_as_compare_does(tmp_path, capsys):
    text = "model: llama-3.1-8b\ncluster: {}\nnodes: 4\nlayout: {{shard: fsdp, global_batch: 64}}\n"
    files = []
    for name in ("dgx-h100", "dgx-b200"):
        files.append(str(tmp_path / f"{name}.yaml"))
        (tmp_path / f"{name}.yaml").write_text(text.format(name))
    assert main(["compare", *files]) == 0
    compared = capsys.readouterr().out
    assert main(["report", *files]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == compared.splitlines()[0]
    assert "B trains" in shown
    for line in compared.splitlines():
        if line.startswith(("  step", "  MFU", "  memory", "  GEMM")):
            assert line in shown
