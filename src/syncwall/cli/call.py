"""One call: words become a question, the question is asked, the answer is written.

Holds `called`, and `Command`, a verb that does something and is no question.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from syncwall.ask.question import RunQuestion
from syncwall.catalogue import catalogue_overlay
from syncwall.cli.commands import types_of
from syncwall.cli.flags import flags_of, parsed
from syncwall.cli.output import bar, with_json_file
from syncwall.cli.run_flags import RunFlags
from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.problems import InputError, Problem


class Command(Description):
    """A verb whose fields are its flags."""

    def run(self) -> int:
        """Do it, and return the exit code."""
        raise NotImplementedError


def called(command: str, words: Sequence[str]) -> int:
    """Ask the question of `command`, or do it; the exit code."""
    types = types_of(command)
    values = parsed(flags_of(*types), with_json_file(words))
    if issubclass(types[0], RunQuestion):
        values["run"] = _filled(RunFlags, values.get("run", {})).stated()
    made = [_filled(one, values) for one in types]
    if isinstance(made[0], Command):
        return made[0].run()
    question, output = made
    output.check(question)
    with catalogue_overlay(getattr(question, "catalogue", None)):
        with bar(question.working) as progress:
            answer = question.answer(progress)
        output.write(answer)
    return int(answer.exit_code)


def _filled(described: type[Description], values: dict[str, Any]) -> Any:
    """One of the types of a verb, with the values of its flags."""
    mine = {key: value for key, value in values.items() if key in described.model_fields}
    try:
        return described.model_validate(mine)
    except ValidationError as error:
        found = faults_of(error, described)
        raise InputError(Problem("", 0, 0, said, ".".join(map(str, path))) for path, said in found) from None
