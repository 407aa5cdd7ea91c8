"""Where an answer goes: the terminal, and files for people and programs.

Holds `OutputFlags`, the same for every verb, and `with_json_file`, which lets --json stand alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tyro

from syncwall.problems import InputError, visible

if TYPE_CHECKING:
    from syncwall.public import Answer
    from syncwall.show.blocks import View

_STDOUT: Final = "-"
_OURS: Final = ('"schema_version"', '"syncwall"')
"""Keys that files written by syncwall have near their start."""


@dataclass(frozen=True)
class OutputFlags:
    """Where the answer goes besides the terminal."""

    json: Annotated[str | None, tyro.conf.arg(metavar="[FILE.json]")] = None
    """Print JSON (SI units, see `syncwall schema`), or write it to FILE.json."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the answer as one HTML page that needs no other file."""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the answer as Markdown, its pictures beside it as NAME-1.svg, ..."""

    @property
    def prints_json(self) -> bool:
        """True if nothing but JSON goes to standard output."""
        return self.json == _STDOUT

    def check(self) -> None:
        """Refuse, before anything is computed, what could not be written or would be lost."""
        from syncwall.documents import refuse_unwritable

        for flag, path in (("json", self._file), ("html", self.html), ("markdown", self.markdown)):
            if path is not None and not path.parent.is_dir():
                raise InputError.of(f"--{flag}: there is no folder {path.parent}")
            if path is not None:
                refuse_unwritable(path)
        if self._file is not None and self._file.is_file() and not _is_ours(self._file):
            raise InputError.of(
                f"--json: {self._file} exists and was not written by syncwall: name another file, "
                "or write --json last to print JSON"
            )

    def write(self, answer: "Answer", **how: Any) -> None:
        """Print `answer` and write its files; `how` goes to its view."""
        self._write(lambda: answer.view(**how), answer.to_dict)

    def write_data(self, verb: str, view: "Callable[[], View]", data: Callable[[], Any]) -> None:
        """The same for what is no answer of the Python interface."""
        from syncwall.records import json_data

        self._write(view, lambda: json_data(verb, data()))

    def _write(self, view: "Callable[[], View]", data: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self._write_json(data)
        finally:  # a full disk must not take the answer from the screen too
            if not self.prints_json or self.html is not None or self.markdown is not None:
                self.write_view(view())

    def _write_json(self, data: Callable[[], Mapping[str, Any]]) -> None:
        from syncwall.records import json_text

        if self._file is not None:
            _save(self._file, json_text(data()))
        elif self.json is not None:
            in_ascii = "utf" not in (sys.stdout.encoding or "utf-8").lower()
            sys.stdout.write(json_text(data(), in_ascii=in_ascii))

    def write_view(self, made: "View") -> None:
        """Print a view, unless JSON is printed, and write its pages."""
        from syncwall.show.write.terminal import print_view

        if not self.prints_json:
            print_view(made)
        for path, text in self._pages(made):
            _save(path, text)

    def _pages(self, made: "View") -> Iterator[tuple[Path, str]]:
        from syncwall.show.write.html import page
        from syncwall.show.write.markdown import markdown

        if self.html is not None:
            yield self.html, page(made)
        if self.markdown is not None:
            written = markdown(made, self.markdown.stem.replace(" ", "-"))
            yield self.markdown, written.text
            for name, picture in written.pictures.items():
                yield self.markdown.with_name(name), picture

    @property
    def _file(self) -> Path | None:
        return Path(self.json) if self.json and self.json != _STDOUT else None


Output = Annotated[OutputFlags, tyro.conf.arg(name="")]
"""The output flags of a verb, without a prefix."""


def with_json_file(words: Sequence[str]) -> list[str]:
    """`words` in which --json has its file, or "-": only a word that ends in .json is one."""
    found: list[str] = []
    for number, word in enumerate(words):
        found.append(word)
        after = words[number + 1] if number + 1 < len(words) else ""
        if word == "--json" and not (after.endswith(".json") or after == _STDOUT):
            found.append(_STDOUT)
    return found


def _save(path: Path, text: str) -> None:
    from syncwall.documents import write_whole

    write_whole(path, text)
    print(visible(f"wrote {path}"), file=sys.stderr)


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return any(key in file.read(2048) for key in _OURS)
