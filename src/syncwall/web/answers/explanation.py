"""Pages that show the view of an answer: Explain, recorded programs, Live.

They run in a process of their own, whose working directory is where the files are: names are all
that an answer shows.

The file comes from a stranger: it is read within limits, in a process that is ended if it takes too
long; no code in it is run.
"""

import binascii
import os
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from syncwall.answer.prediction import predict
from syncwall.describe import Run, lookup
from syncwall.describe.files import RunFile
from syncwall.describe.reading import validated
from syncwall.documents import parse_document
from syncwall.explain.answer import Explanation, explain
from syncwall.explain.readers import FilesRequest
from syncwall.problems import InputError
from syncwall.read.recorded_program import program_in
from syncwall.records import plain
from syncwall.show.records.watch import LiveRun
from syncwall.show.watch import live_view
from syncwall.show.write.whole_files import body, page
from syncwall.watch.summary import read_snapshot, watched_here
from syncwall.web.questions import AskedFolder, AskedProgram

Progress = Callable[[float], None]
MOST_LISTED: Final = 500


def listed(folder: Path | None) -> dict[str, Any]:
    """What the folder of `serve --files` holds, the newest first; no folder is no error."""
    if folder is None:
        return {"folder": None, "names": []}
    return {"folder": folder.name, "names": _names(folder)[:MOST_LISTED]}


def _names(folder: Path) -> list[str]:
    try:
        found = [one for one in folder.iterdir() if not one.name.startswith(".")]
        return [one.name for one in sorted(found, key=lambda one: -one.stat().st_mtime)]
    except OSError as error:
        raise InputError.of(f"the folder cannot be read: {error.strerror}") from None


def explained_folder(folder: Path | None, asked: AskedFolder, *, progress: Progress) -> Any:
    """The answer to what is named, which must be on the list."""
    known = set() if folder is None else set(_names(folder))
    chosen = [name for name in (asked.name, asked.against) if name]
    for name in chosen:
        if name not in known:
            raise InputError.of(f"there is no {name!r} in the folder that the server was given")
    assert folder is not None
    os.chdir(folder)
    texts = {"cluster": asked.cluster, "run": asked.run}
    return _answer([Path(asked.name)], [Path(name) for name in chosen[1:]], texts, progress)


def explained_files(folder: Path, texts: Mapping[str, str], *, progress: Progress) -> Any:
    """The answer to files that a visitor sent: `files`, and `against` which they are compared."""
    os.chdir(folder)
    sent = {name: sorted(Path(name).glob("*")) for name in ("files", "against")}
    if not sent["files"]:
        raise InputError.of("choose files: profiler traces, NCCL logs, topologies, benchmarks")
    return _answer(sent["files"], sent["against"], texts, progress)


_PASTED: Final = Path("files", "pasted.txt")
"""As explain.js calls the text of its box."""


def _answer(
    files: list[Path], against: list[Path], texts: Mapping[str, str], progress: Progress
) -> dict[str, Any]:
    question = FilesRequest(
        run=_run(texts.get("run", "")),
        machine=lookup.cluster(texts["cluster"]) if texts.get("cluster") else None,
        workers=1,
        pasted=_PASTED,
    )
    found = explain(files, question, against=against, progress=progress)
    return _shown(found)


def _run(text: str) -> Run | None:
    return validated(RunFile(text=parse_document(text, "run")).run(), Run) if text.strip() else None


def _shown(found: Explanation) -> dict[str, Any]:
    """The record, the article, and the whole as a page to keep."""
    view = found.view()
    return {
        "record": found.to_dict(),
        "html": body(view),
        "page": page(view),
    }


def predicted(asked: AskedProgram) -> dict[str, Any]:
    """The answer of `predict --work`, and the same as an article in HTML."""
    try:
        data = b64decode(asked.file, validate=True)
    except (binascii.Error, ValueError):
        raise InputError.of("file: is not base64") from None
    program = program_in(data, asked.name)
    found = predict(program, cluster=lookup.cluster(asked.cluster), compiled=asked.compiled)
    return {**found.to_dict(), "html": body(found.view())}


_FORGOTTEN_S: Final = 3600.0
"""Runs that were last heard of before are left out."""


def shown() -> dict[str, Any]:
    """Every run of the user who serves the pages, the latest first: what it does right now."""
    found = []
    for home in watched_here():
        try:
            snapshot = read_snapshot(home)
        except InputError:  # it ended meanwhile
            continue
        status = snapshot.status()
        if status.age_s is None or status.age_s > _FORGOTTEN_S:
            continue
        view = live_view(snapshot, status)
        found.append(
            {
                "id": home.name,
                "title": view.title,
                "html": body(view),
                "record": plain(LiveRun(snapshot, status)),
            }
        )
    return {"runs": found}
