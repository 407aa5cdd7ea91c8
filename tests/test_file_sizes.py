"""A file holds one concept: long enough to be one, short enough to be read.

`python -m tests.test_file_sizes` takes files off `data/small_files.yaml` that are gone or grew; it
never adds one: a small file that has to be gets a line under `because`, with the reason.
"""

from pathlib import Path

import yaml

import syncwall

ROOT = Path(syncwall.__file__).parent
LEAST, MOST = 60, 600
LISTED = Path(__file__).parent / "data" / "small_files.yaml"
LINES = {
    str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sorted(ROOT.rglob("*.py"))
}
SMALL = {name for name, count in LINES.items() if count < LEAST and not name.endswith("__init__.py")}
"""Without the files that say what a folder holds."""


def test_no_file_is_longer_than_600_lines():
    assert [name for name, count in LINES.items() if count > MOST] == []


def test_no_file_is_shorter_than_60_lines_unless_listed():
    listed = yaml.safe_load(LISTED.read_text())
    because, old = listed["because"], set(listed["to_be_merged"])
    assert all(str(reason).strip() for reason in because.values())
    assert sorted(SMALL - old - set(because)) == [], "merge them with the concept that they serve"
    assert sorted((old | set(because)) - SMALL) == [], "run python -m tests.test_file_sizes"


def test_every_file_says_what_it_is():
    assert [name for name in LINES if not (ROOT / name).read_text().startswith('"""')] == []


def take_off() -> None:
    """Write the list again without the files that are no longer small."""
    listed = yaml.safe_load(LISTED.read_text())
    head = "".join(line for line in LISTED.read_text().splitlines(True) if line.startswith("#"))
    kept = {
        "because": {name: why for name, why in listed["because"].items() if name in SMALL},
        "to_be_merged": sorted(SMALL & set(listed["to_be_merged"])),
    }
    LISTED.write_text(head + yaml.safe_dump(kept, sort_keys=False, width=100))


if __name__ == "__main__":
    take_off()
