"""Every module has tests that can be found."""

from tests.where import ROOT, SOURCE, files_for


def test_the_file_beside_a_module_comes_first():
    path = SOURCE / "syncwall" / "cost" / "path.py"
    assert files_for(path)[0] == ROOT / "tests" / "cost" / "test_path.py"


def test_tests_lead_to_every_module():
    modules = [path for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
    assert len(modules) > 300
    assert [path for path in modules if not files_for(path)] == []
