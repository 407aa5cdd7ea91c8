"""What a file says never steers the terminal: control characters are shown, not sent."""

import json
import re
from pathlib import Path

import pytest
import yaml

from syncwall.cli import main
from syncwall.problems import CONTROLS, InputError, visible
from syncwall.show import blocks
from syncwall.show.write.terminal import rendered
from tests.describe.samples import MODEL

HOSTILE = "a\x1b]0;mine\x07\x9b31m\r\u202eb\x7f\x00\u2066"
RUN = ["--cluster", "dgx-h100", "--gpus", "8"]


def controls(text: str) -> list[str]:
    return CONTROLS.findall(text)


def model_file(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(MODEL | changes))  # escapes them
    return str(path)


def test_they_are_written_out():
    assert visible(HOSTILE) == r"a\x1b]0;mine\x07\x9b31m\r\u202eb\x7f\x00\u2066"
    assert visible("−13%\tµs\r\n█") == "−13%\tµs\n█"


def test_every_kind_of_block_is_safe():
    text = HOSTILE
    view = blocks.View(
        "title",
        (
            blocks.Verdict((text,), text),
            blocks.Lines("label", (text,)),
            blocks.Heading(2, text),
            blocks.Paragraph(text),
            blocks.Bullets((text,)),
            blocks.Table((text, "n"), ((text, "1"), (text,))),
            blocks.Code(text),
            blocks.Breakdown(text, (blocks.Share(text, 1.0),), 1.0),
            blocks.Notes(text),
            blocks.Figure(lambda: pytest.fail("not drawn here"), text, lambda width: [text]),
        ),
    )
    lines = [line.plain for line in rendered(view, 300)]
    assert sum(r"\x1b]0;mine\x07" in line for line in lines) >= len(view.blocks)
    assert not controls("\n".join(lines))


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_titles_of_models(more, tmp_path, capsys):
    path = model_file(tmp_path, name=HOSTILE, title=HOSTILE, note=HOSTILE)
    main(["predict", "--model", path, *RUN, *more])
    main(["show", "model", path, *more])
    out, err = capsys.readouterr()
    assert "mine" in out
    assert not controls(out + err)


def test_keys_and_values_that_are_refused(tmp_path, capsys):
    assert main(["predict", "--model", model_file(tmp_path, **{HOSTILE: 1}), *RUN]) == 2
    assert main(["predict", "--model", model_file(tmp_path, layers=HOSTILE), *RUN]) == 2
    err = capsys.readouterr().err
    assert err.count(r"\x1b]0;mine") == 2
    assert not controls(err)


def test_settings(tmp_path, capsys):
    path = tmp_path / "train.toml"
    quoted = json.dumps(HOSTILE).replace("\x7f", "\\u007f")
    path.write_text(f"[parallelism]\ntensor_parallel_degree = {quoted}\n{quoted} = 1\n")
    main(["predict", "--model", "llama-3.1-8b", *RUN, "--from", str(path)])
    out, err = capsys.readouterr()
    assert "mine" in out + err
    assert not controls(out + err)


def test_dumps(tmp_path, capsys):
    """Strings of a flight recorder's dump, in its JSON form."""
    entry = {
        "frames": [{"name": HOSTILE, "filename": HOSTILE, "line": 1}],
        "record_id": 0,
        "pg_id": 0,
        "process_group": [HOSTILE, HOSTILE],
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "profiling_name": f"nccl:{HOSTILE}",
        "time_created_ns": 1,
        "state": HOSTILE,
        "input_sizes": [[4]],
        "input_dtypes": [HOSTILE],
        "output_sizes": [[4]],
        "output_dtypes": [HOSTILE],
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 1,
        "is_p2p": False,
    }
    for rank in range(2):
        dump = {
            "version": "2.5",
            "pg_config": {"0": {"name": "0", "desc": HOSTILE, "ranks": "[0, 1]"}},
            "pg_status": {},
            "entries": [entry] * (rank + 1),
        }
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump))
    main(["explain", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "mine" in out + err
    assert not controls(out + err)


def test_errors_of_the_library_are_safe_to_print():
    assert re.search(r"\\x1b", str(InputError.of(HOSTILE, file=HOSTILE, line=1, column=1)))
    assert not controls(str(InputError.of(HOSTILE, file=HOSTILE)))
