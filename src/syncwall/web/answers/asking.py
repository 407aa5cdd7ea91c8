"""Questions as pages post them: the type that Python and the terminal ask, as JSON.

Holds `answered`.
"""

from typing import Any

from syncwall.ask.verbs import question_type
from syncwall.describe.names import only_catalogue
from syncwall.show.write.whole_files import body
from syncwall.web.questions import AskedQuestion


def answered(verb: str, asked: AskedQuestion) -> dict[str, Any]:
    """The answer as `--json` prints it (`record`), and as an article in HTML (`html`).

    Names are looked up in the catalogue only, never as files.
    """
    with only_catalogue():
        answer = question_type(verb).of(asked.model_dump()).answer()
        return {"record": answer.to_dict(), "html": body(answer.view())}
