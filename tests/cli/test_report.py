import pytest

from syncwall.cli import main
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
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "write the results to report"),
        (["{file}"], "say where to write: --html FILE or --markdown FILE"),
        (["{folder}/none.json", "--html", "{folder}/a.html"], "none.json: cannot be read"),
        (["{file}", "--html", "{folder}/no/a.html"], "a.html: cannot be written"),
        (["{file}", "--html", "{folder}/a.html", "--notes", "{folder}/no"], "no: cannot be read"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(words, message, file, tmp_path, capsys):
    said = [word.format(file=file, folder=tmp_path) for word in words]
    assert main(["report", *said]) == 2
    assert message in capsys.readouterr().err
