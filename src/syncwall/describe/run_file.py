"""A run as a run file, which gives the same run when it is read.

Holds `run_text`.
"""

from typing import Any

import yaml

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import CatalogueEntry, Description
from syncwall.describe.names import load
from syncwall.describe.run import Run


def run_text(run: Run) -> str:
    """`run` as YAML; what is open is left out."""
    machine = run.cluster
    part = {"nodes": machine.nodes, "gpus_per_node": machine.gpus_per_node}
    fields: dict[str, Any] = {
        "model": _entry(CatalogueKind.MODEL, run.model),
        "cluster": _entry(CatalogueKind.CLUSTER, machine, part),
        "nodes": int(run.nodes),
        "gpus_per_node": int(run.gpus_per_node),
        "seq": int(run.seq),
        "layout": _plain(run.layout),
        "software": _plain(run.software),
    }
    if run.measured is not None:
        fields["measured"] = _plain(run.measured)
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def _entry(
    kind: CatalogueKind, entry: CatalogueEntry, stated_beside: dict[str, Any] | None = None
) -> Any:
    """Its name where the catalogue has the same but for what is `stated_beside`; else all of it."""
    if entry.name in catalogue.names(kind):
        known = load(kind, type(entry), entry.name)
        if known.model_copy(update=stated_beside) == entry:
            return entry.name
    return _plain(entry)


def _plain(description: Description) -> dict[str, Any]:
    """Every field that has a value, numbers in SI units under names that say so."""
    plain: dict[str, Any] = description.model_dump(mode="json", exclude_none=True)
    return plain
