"""Pages of the documentation that are made of data, and the Accuracy page of the program.

What stands above the first generated section of a page is written by hand, in the page itself.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from tests.cli.promises import promised

from bench import ROOT
from syncwall import __version__, catalogue, units
from syncwall.catalogue import CatalogueKind
from syncwall.describe import lookup
from syncwall.describe.base import CatalogueEntry, Count, Description, SourcedNumber, Trust
from syncwall.records import SCHEMA_VERSION
from syncwall.show.schema import VERBS, schema
from syncwall.show.terms import Term, terms

SCHEMAS = ROOT / "docs" / "schemas"
PROMISED = SCHEMAS / "promised.json"
_TABLE = re.compile(r"(\| verb \| schema \|\n\|---\|---\|\n)(?:\|.*\n)*")
REFERENCE = ROOT / "docs" / "reference"
SCHEMA_PAGE = REFERENCE / "json.md"
GLOSSARY, LICENCES = REFERENCE / "glossary.md", REFERENCE / "data-licences.md"
ASSUMED = REFERENCE / "assumed-numbers.md"
_CODE = re.compile(r"--[\w-]+|\.?\w+\(\)|\w+_\w+(=\w+)?|\w+(\.\w+)+(\(\))?|\w+::\w+")
LICENCE_NAMES = {
    "Apache-2.0": "Apache License 2.0",
    "BSD-3-Clause": "BSD 3-Clause",
    "CC-BY-4.0": "Creative Commons Attribution 4.0",
    "CC-BY-SA-4.0": "Creative Commons Attribution-ShareAlike 4.0",
    "CC0-1.0": "Creative Commons Zero 1.0",
    "MIT": "MIT License",
    "MIT-0": "MIT No Attribution",
    "UPL-1.0": "Universal Permissive License 1.0",
    "own terms": "terms of its own, in the licence file of the repository",
    "not stated": "no licence found with it, or none that we have checked",
}
READERS: dict[CatalogueKind, Any] = {
    CatalogueKind.DEVICE: lookup.device,
    CatalogueKind.LINK: lookup.link,
    CatalogueKind.CLUSTER: lookup.cluster,
    CatalogueKind.SWITCH: lookup.switch,
    CatalogueKind.PRICE: lookup.price_list,
    CatalogueKind.FAILURE: lookup.failure_rates,
}
ALIKE = 0.55


def _head(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n## ")[0]


def glossary_text() -> str:
    def entry(term: Term) -> str:
        elsewhere = ((who, _CODE.sub(r"`\g<0>`", words)) for who, words in term.elsewhere.items())
        lines = [
            f"\n## {term.name}\n",
            f"{term.meaning}\n",
            f"- Also: {', '.join(term.also)}" if term.also else "",
            f"- Formula: {term.formula}" if term.formula else "",
            f"- Unit: {term.unit}" if term.unit else "",
            *(f"- {who}: {words}" for who, words in elsewhere),
            f"- [Read on](../{term.page})\n",
        ]
        return "\n".join(line for line in lines if line)

    return _head(GLOSSARY) + "".join(map(entry, terms()))


def licences_text() -> str:
    sources = catalogue.sources()
    text = _head(LICENCES)
    for licence, words in LICENCE_NAMES.items():
        found = sorted(key for key, source in sources.items() if source["licence"] == licence)
        text += f"\n## {licence}: {len(found)}\n\n{words}.\n\n| source | title | author |\n"
        text += "|---|---|---|\n"
        for key in found:
            text += f"| `{key}` | {sources[key]['title']} | {sources[key]['author']} |\n"
    return text


def assumed_text() -> str:
    """Every number of an entry of the catalogue whose trust is `assumed`."""

    def amount(one: SourcedNumber | Count) -> str:
        if isinstance(one, Count):
            return f"{one:,}"
        return units.format(float(f"{one:.4g}"), one.dimension)

    text = _head(ASSUMED)
    for kind, read in READERS.items():
        rows = [
            f"| `{name}` | {path} | {amount(number)} | {number.provenance.note or entry.note} |\n"
            for name in catalogue.names(kind)
            for entry in [read(name)]
            for path, number in _numbers(entry)
            if number.provenance.trust is Trust.ASSUMED
        ]
        if rows:
            title = f"\n## {kind.folder.capitalize()}: {len(rows)}\n\n"
            text += f"{title}| {kind} | what | value | how |\n|---|---|---|---|\n{''.join(rows)}"
    return text


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number with an origin that an entry states, with the keys that lead to it."""
    inner: dict[str, Any] = {}
    if isinstance(value, Description):
        stated = ((name, getattr(value, name)) for name in type(value).model_fields)
        inner = {k: v for k, v in stated if k in value.model_fields_set}
        inner = {k: v for k, v in inner.items() if not isinstance(v, CatalogueEntry)}
    elif isinstance(value, dict):
        inner = value
    elif isinstance(value, list | tuple):
        inner = {str(n): one for n, one in enumerate(value, start=1)}
    elif isinstance(value, SourcedNumber | Count):
        yield path, value
    for key, one in inner.items():
        yield from _numbers(one, f"{path}.{key}".lstrip("."))


def glossary() -> None:
    """Write docs/reference/glossary.md."""
    GLOSSARY.write_text(glossary_text(), encoding="utf-8")


def licences() -> None:
    """Write docs/reference/data-licences.md."""
    LICENCES.write_text(licences_text(), encoding="utf-8")


def assumed() -> None:
    """Write docs/reference/assumed-numbers.md."""
    ASSUMED.write_text(assumed_text(), encoding="utf-8")


def published(verb: str) -> Path:
    return SCHEMAS / f"{verb.replace(' ', '-')}.json"


def schemas(release: bool = False) -> None:
    """Publish the schemas of what `--json` prints today; with --release promise them.

    docs/schemas/VERB.json, listed in docs/reference/json.md. docs/schemas/promised.json has every
    key with its type as of the last release: within a schema version no key of it may go or change.
    """
    for verb in VERBS:
        text = json.dumps(schema(verb), indent=2, ensure_ascii=False)
        published(verb).write_text(f"{text}\n", encoding="utf-8")
    names = ((verb, published(verb).name) for verb in VERBS)
    rows = "".join(f"| `{verb}` | [{name}](../schemas/{name}) |\n" for verb, name in names)
    SCHEMA_PAGE.write_text(_TABLE.sub(lambda head: head[1] + rows, SCHEMA_PAGE.read_text()))
    if release:
        keys = {verb: promised(schema(verb)) for verb in VERBS}
        made = {"release": __version__, "schema_version": SCHEMA_VERSION, "verbs": keys}
        PROMISED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def accuracy() -> None:
    """Write what the Accuracy page of the program shows: every run that comes with syncwall.

    Takes half a minute. The figures of the documentation, of all sources, are those of
    docs/accuracy.json: after a change of the model first `bench accuracy DIR --accept`, then this.
    """
    from bench.accuracy.pages import headline
    from syncwall.web.answers.accuracy import accuracy as answered
    from syncwall.web.assets import SHIPPED

    summary = json.loads((ROOT / "docs" / "accuracy.json").read_text(encoding="utf-8"))["summary"]
    published = {key: value for key, value in summary.items() if key != "against"}
    answer = answered() | {"published": published, "unseen": headline()}
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    SHIPPED.parent.mkdir(exist_ok=True)
    SHIPPED.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{SHIPPED.stat().st_size / 1e3:.0f} kB of {len(answer['runs']):,} runs")


def refresh() -> None:
    """Put what commands print today into the documentation, and write the schemas.

    Runs every `$ syncwall` command of the pages and replaces each printed line that no longer
    occurs by the most similar one; tests/test_docs.py then compares. Look at the difference before
    committing.
    """
    from tests.test_docs import BLOCK, PAGES

    schemas()
    for page in PAGES:
        text = page.read_text()
        with tempfile.TemporaryDirectory() as folder:
            desk = Path(folder)
            shutil.copytree(ROOT / "examples", desk / "examples")
            for kind, block in BLOCK.findall(text):
                name = block.splitlines()[0][2:] if block.startswith("# ") else ""
                if kind == "yaml" and name.endswith((".yaml", ".json")):
                    (desk / name).parent.mkdir(parents=True, exist_ok=True)
                    (desk / name).write_text(block)
                if kind == "console":
                    text = text.replace(block, refreshed(block, desk))
        if text != page.read_text():
            page.write_text(text)
            print(page.relative_to(ROOT))


def refreshed(block: str, desk: Path) -> str:
    from tests.test_docs import COMMAND

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    how: dict[str, Any] = {"cwd": desk, "capture_output": True, "text": True}
    how["env"] = os.environ | {"PATH": path, "COLUMNS": "120"}
    lines: list[str] = []
    output: list[str] = []
    for stated in block.splitlines():
        line, match = stated, COMMAND.fullmatch(stated)
        if match:
            output = []
            if match[1].startswith(("syncwall", "cat", "mkdir", "export")):
                done = subprocess.run(["bash", "-c", match[1]], check=False, **how)
                output = [one.rstrip() for one in (done.stdout + done.stderr).splitlines()]
        elif line.strip() not in ("", "...") and output:
            line, output = _nearest(line, output)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _nearest(line: str, output: list[str]) -> tuple[str, list[str]]:
    open_end = line.endswith(" ...")
    start = line.removesuffix(" ...").rstrip()
    for index, other in enumerate(output):
        if other == line.rstrip() or (open_end and other.startswith(start)):
            return line, output[index + 1 :]
    scores = [SequenceMatcher(None, start, other[: len(start) + 8]).ratio() for other in output]
    best = max(range(len(output)), key=lambda index: scores[index])
    if scores[best] < ALIKE:
        return line, output
    found = output[best][: len(start)].rstrip() + " ..." if open_end else output[best]
    return found, output[best + 1 :]
