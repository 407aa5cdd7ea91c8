"""The Explain page: what files say, those of a visitor or of the folder that the server was given.

Holds `listed`, `explained_files` and `explained_folder`. They run in a process of
their own, whose working directory is where the files are: names are all that an answer shows.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from syncwall.describe import Run, lookup
from syncwall.describe.files import RunFile
from syncwall.describe.reading import validated
from syncwall.documents import parse_document
from syncwall.explain.answer import Explanation, Question, explain
from syncwall.problems import InputError
from syncwall.show.write.files import body, page
from syncwall.web.questions import AskedFolder

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


def _answer(
    files: list[Path], against: list[Path], texts: Mapping[str, str], progress: Progress
) -> dict[str, Any]:
    question = Question(
        run=_run(texts.get("run", "")),
        machine=lookup.cluster(texts["cluster"]) if texts.get("cluster") else None,
        workers=1,
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
        "is_bad": found.is_bad,
        "html": body(view),
        "page": page(view),
    }
