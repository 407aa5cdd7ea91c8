"""Style sheets, scripts and pictures of the pages: compressed once, cached by browsers by hash.

Holds `Asset`, `sent`, `assets` (all of them by name), `digest`, which names this set of them, and
`shipped_accuracy`, the answer of the Accuracy page.
Pages ask for `static/DIGEST/NAME`, which never changes and is kept; modules that import each other
stay in the same set. `static/NAME` is asked for again each time, and answered with 304 if known.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final

import brotli
from fastapi import Request
from fastapi.responses import Response

from syncwall.cause import Cause
from syncwall.plan.choices import SEARCHED
from syncwall.show.field_words import KEYS, VALUES
from syncwall.show.terms import named

_FOLDER: Final = Path(str(files("syncwall.web")))
SHIPPED: Final = _FOLDER / "shipped" / "accuracy.json.gz"
"""Written by `python -m bench docs accuracy`."""
_QUALITY: Final = 5
"""Of Brotli: as quick as gzip at its best, and an eighth smaller."""
_SCRIPT: Final = "text/javascript"
_KEPT: Final = "max-age=31536000, immutable"
_ASKED_AGAIN: Final = "no-cache"


@dataclass(frozen=True)
class Asset:
    """What is sent under one name; compressed when somebody first asks for it."""

    body: bytes
    kind: str
    """The media type."""

    @cached_property
    def br(self) -> bytes:
        """Compressed with Brotli, which browsers read over HTTPS and on their own machine."""
        return bytes(brotli.compress(self.body, quality=_QUALITY))

    @cached_property
    def gzip(self) -> bytes:
        """Compressed with gzip, which everything reads."""
        return gzip.compress(self.body, 9, mtime=0)

    @cached_property
    def tag(self) -> str:
        """Changes with what is sent."""
        return hashlib.sha256(self.body).hexdigest()[:16]


def sent(asset: Asset, request: Request, *, is_kept: bool = False) -> Response:
    """`asset` as this visitor can read it; only that it is unchanged, if the visitor has it."""
    headers = {
        "cache-control": _KEPT if is_kept else _ASKED_AGAIN,
        "etag": f'"{asset.tag}"',
        "vary": "accept-encoding",
    }
    if f'"{asset.tag}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    read = re.findall(r"[a-z]+", request.headers.get("accept-encoding", "").lower())
    for coding in ("br", "gzip"):
        if coding in read:
            headers["content-encoding"] = coding
            return Response(getattr(asset, coding), headers=headers, media_type=asset.kind)
    return Response(asset.body, headers=headers, media_type=asset.kind)


@cache
def assets() -> dict[str, Asset]:
    """All of them by what follows `static/`."""
    return dict(_files(_FOLDER / "static")) | dict(_made())


@cache
def digest() -> str:
    """Of all assets together, so that no two of different releases are mixed."""
    tags = "".join(f"{name} {asset.tag}\n" for name, asset in sorted(assets().items()))
    return hashlib.sha256(tags.encode()).hexdigest()[:12]


def _files(folder: Path) -> Iterator[tuple[str, Asset]]:
    """Those of a folder; a wheel has scripts and style sheets compressed."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name, raw = path.relative_to(folder).as_posix(), path.read_bytes()
            if path.suffix == ".gz":
                name, raw = name.removesuffix(".gz"), gzip.decompress(raw)
            yield name, Asset(raw, _kind(name))


def _kind(name: str) -> str:
    return _SCRIPT if name.endswith(".js") else guess_type(name)[0] or "text/plain"


def _made() -> Iterator[tuple[str, Asset]]:
    """What is no file of the folder."""
    yield "plotly.js", Asset(_plotly().read_bytes(), _SCRIPT)
    rules = files("syncwall.show.draw").joinpath("chart.css").read_text(encoding="utf-8")
    inside = rules[rules.index("svg text") :]  # without the colours, which pages have themselves
    yield "chart.css", Asset(f".finding {{\n{inside}}}\n".encode(), "text/css")
    names = ("colour", "moved")
    causes = [{"key": one} | {name: getattr(one, name) for name in names} for one in Cause]
    yield "cause_list.js", _script(CAUSES=causes)
    yield "word_list.js", _script(KEYS=KEYS, VALUES=VALUES, SEARCHED=SEARCHED)
    yield "term_list.js", _script(TERMS={name: one.meaning for name, one in named().items()})


def _plotly() -> Path:
    """Plotly's script, as its Python package brings it."""
    found = find_spec("plotly")
    assert found is not None  # a dependency of the extra
    assert found.origin is not None
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def _script(**known: Any) -> Asset:
    """A script module with these constants, so that pages need no list of their own."""
    lines = (f"export const {name} = {json.dumps(value)};\n" for name, value in known.items())
    return Asset("".join(lines).encode(), _SCRIPT)


@cache
def shipped_accuracy() -> Asset:
    """What `answers.accuracy` found for this release, and `published`: the documentation's figures.

    Those are of more sources than may be passed on.
    """
    return Asset(gzip.decompress(SHIPPED.read_bytes()), "application/json")
