"""The page for recorded programs.

Holds `predicted`. The file comes from a stranger: it is read within limits, in a
process that is ended if it takes too long; no code in it is run.
"""

import binascii
from base64 import b64decode
from typing import Any

from syncwall.answer.program import predict_program
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.read.program import program_in
from syncwall.show.write.files import body
from syncwall.web.questions import AskedProgram


def predicted(asked: AskedProgram) -> dict[str, Any]:
    """The answer of `predict --work`, and the same as an article in HTML."""
    try:
        data = b64decode(asked.file, validate=True)
    except (binascii.Error, ValueError):
        raise InputError.of("file: is not base64") from None
    program = program_in(data, asked.name)
    found = predict_program(program, lookup.cluster(asked.cluster), compiled=asked.compiled)
    return {**found.to_dict(), "html": body(found.view())}
