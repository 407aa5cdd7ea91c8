"""What the server loads to start: questions, never answers."""

import subprocess
import sys

from syncwall.web.answers import answer_named
from syncwall.web.routes import _ANSWERS

LOADED = """
import sys
from syncwall.web.application import application
application()
print(*(name for name in sys.modules if name.startswith(("syncwall.", "numpy"))))
"""


def test_the_server_loads_no_answer_and_no_arithmetic():
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    heavy = (
        "syncwall.web.answers.",
        "syncwall.answer",
        "syncwall.cost",
        "syncwall.explain",
        "numpy",
    )
    assert not [name for name in loaded if name.startswith(heavy)]


def test_every_answer_that_is_named_is_there():
    for path, name in _ANSWERS.items():
        assert answer_named(name).__doc__, path
