"""`syncwall schema`: what the JSON of a verb holds, as JSON Schema.

Holds `schema`.
"""

from typing import Annotated

from syncwall.ask.question import Argument
from syncwall.cli.call import Command
from syncwall.problems import refuse_unknown


class SchemaCommand(Command):
    """Print the JSON Schema of what `--json` prints: every key with its meaning and its unit."""

    verb: Annotated[tuple[str, ...], Argument("VERB", positional=True)] = ()
    """The verb, with its part if it has some: predict, or plan layouts; without one those that have
    a schema are listed."""

    def run(self) -> int:
        """The exit code."""
        import json

        from syncwall.show.schema import VERBS
        from syncwall.show.schema import schema as of_answer

        name = " ".join(self.verb)
        if not name:
            print("\n".join(VERBS))
            return 0
        refuse_unknown(name, VERBS, f'"{name}" has no schema')
        print(json.dumps(of_answer(name), indent=2, ensure_ascii=False))
        return 0
