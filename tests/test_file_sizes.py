"""Files stay short enough to be read at one sitting."""

from pathlib import Path

import pytest

import syncwall

ROOT = Path(syncwall.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_file_is_longer_than_350_lines(path: Path):
    assert len(path.read_text().splitlines()) <= 350


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_every_file_says_what_it_is(path: Path):
    assert path.read_text().startswith('"""')
