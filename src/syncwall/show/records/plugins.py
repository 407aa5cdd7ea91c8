"""What other packages add, as lines of plain data.

Holds `plugin_lines`.
"""

from typing import get_args

from syncwall import catalogue, plugins
from syncwall.answer.pricing import networks
from syncwall.cost.nccl import algorithms
from syncwall.describe.huggingface import architectures
from syncwall.describe.settings.formats import formats
from syncwall.explain.readers import readers
from syncwall.show.records.listing import Line


def plugin_lines() -> list[Line]:
    """What packages add to each table, and why some of it is not used."""
    for table in (architectures, catalogue.plugged, algorithms, networks, readers, formats):
        table()
    return [
        {"name": one.name, "group": one.group, "package": one.package, "problem": one.problem}
        for group in get_args(plugins.Group)
        for one in plugins.added(group)
    ]
