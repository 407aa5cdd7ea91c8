import pytest
from pydantic import ValidationError

from syncwall.describe import Software
from syncwall.describe.base import is_open


def test_a_framework_is_known_by_its_names():
    assert Software(framework="NeMo").framework == "megatron-core"
    assert Software(framework="llm foundry").framework == "llm-foundry"


def test_an_unknown_framework_suggests_the_nearest():
    with pytest.raises(ValidationError, match='unknown framework "nanotorn"; did you mean "nanotr'):
        Software(framework="nanotorn")


@pytest.mark.parametrize("date", ["2024", "2024-13", "24-03", "2024-3", "2024-03-01", "soon"])
def test_a_date_is_a_month(date):
    with pytest.raises(ValidationError, match=f'"{date}" is not a month: write for example "2025-'):
        Software(date=date)


def test_a_month_of_the_past_is_fine():
    assert Software(date="2019-11").date == "2019-11"


def test_what_nobody_states_is_open():
    found = Software()
    assert all(is_open(found, name) for name in ("framework", "date", "attention", "kernels"))
