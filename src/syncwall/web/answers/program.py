"""The page for recorded programs.

Holds `predicted`. The file comes from a stranger: it is read within limits, in a
process that is ended if it takes too long; no code in it is run.
"""

import binascii
from base64 import b64decode
from typing import Any

from syncwall.answer.program import predict_program
from syncwall.answer.program_changes import program_changes
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.read.program import program_in
from syncwall.show.records.interface import json_data
from syncwall.show.records.program import program_record
from syncwall.show.views.program import program_view
from syncwall.show.write.html import body
from syncwall.web.questions import AskedProgram


def predicted(asked: AskedProgram) -> dict[str, Any]:
    """The answer of `predict --work`, and the same as an article in HTML."""
    try:
        data = b64decode(asked.file, validate=True)
    except (binascii.Error, ValueError):
        raise InputError.of("file: is not base64") from None
    program = program_in(data, asked.name)
    found = predict_program(program, lookup.cluster(asked.cluster), compiled=asked.compiled)
    changes = program_changes(found)
    record = json_data("predict work", program_record(found, changes))
    return {**record, "html": body(program_view(found, changes))}
