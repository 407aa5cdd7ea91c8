"""What `syncwall explain` says of every file below a directory, one by one.

`python bench/read_all.py DIR [DIR ...]`; the exit code is 1 if a file made it fail.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from syncwall.explain.answer import explain
from syncwall.problems import InputError
from syncwall.show.words.explanation import verdict
from syncwall.show.words.files_read import file_lines


def lines(directory: Path) -> Iterator[tuple[bool, str]]:
    """Whether a file was read without a fault of ours, and what to print of it."""
    for path in sorted(one for one in directory.rglob("*") if one.is_file()):
        began, name = time.perf_counter(), str(path.relative_to(directory))
        try:
            found = explain([path])
            kind = ", ".join(kind for kind in found.files)
            facts = "; ".join(says for _, says in file_lines(found))
            said = f"{kind:<20} {facts} | {verdict(found)}"
            fine = True
        except InputError as error:
            said, fine = f"{'not read':<20} {str(error).splitlines()[0][-90:]}", True
        except Exception:  # noqa: BLE001 - what this looks for
            said, fine = f"{'FAILED':<20} {traceback.format_exc().splitlines()[-1]}", False
        yield fine, f"{name:<58} {time.perf_counter() - began:5.2f} s  {said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, nargs="+")
    fine = True
    for directory in parser.parse_args().directory:
        for good, line in lines(directory):
            fine = fine and good
            print(line, flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
