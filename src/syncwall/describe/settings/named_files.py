"""Files that settings name, as far as they may be read.

Holds `named_document` (settings inside settings) and `config_beside` (of a model). Settings that
somebody pasted into a page name files of another machine: none of them is looked for.
"""

from pathlib import Path

from syncwall.describe.names import files_refused
from syncwall.documents import Document, read_document
from syncwall.problems import InputError


def named_document(file: str, directory: Path) -> Document:
    """The file that settings in `directory` name: beside them, or as seen from here."""
    if files_refused():
        raise InputError.of("it is a file of its own, which was not given")
    beside = directory / file
    return read_document(beside if beside.is_file() else Path(file))


def config_beside(name: str, directory: Path) -> Path | None:
    """The configuration of a model in the file or folder `name` of `directory`, if there is one."""
    if files_refused():
        return None
    beside = directory / name
    found = beside / "config.json" if beside.is_dir() else beside
    return found if found.is_file() else None
