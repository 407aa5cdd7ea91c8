"""Importing this loads what every answer needs: done once, by the process that others start from.

`workers.process_context` names it. A prediction fills the caches of catalogue, descriptions and
published runs, which the processes then share instead of filling their own.
"""

from syncwall.describe.names import only_catalogue
from syncwall.web.answers.prediction import predicted
from syncwall.web.questions import AskedRun

with only_catalogue():
    predicted(AskedRun(model="llama-3.1-8b", cluster="dgx-h100"))
