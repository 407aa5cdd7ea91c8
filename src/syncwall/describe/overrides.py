"""A run from a file, from the settings of a framework, from flags, or from all of them.

Holds `run_with`, and `fields_with`: the keys of a run before they are checked.
"""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from syncwall.describe.faults import faults_of
from syncwall.describe.job_file import mapping, merged, run_part
from syncwall.describe.run import ClusterRef, ModelRef, Run
from syncwall.describe.sections import without_sections
from syncwall.describe.settings import DeferredSettings, Settings, SettingsContext
from syncwall.documents import Document, KeyPath, read_document
from syncwall.problems import InputError, Problem


def run_with(
    path: Path | None,
    flags: dict[str, str],
    settings: Settings | None = None,
    *,
    sections: bool = False,
) -> Run:
    """The run in `path`, with `settings` and then `flags` ("layout.tp": "8") over it.

    `sections`: the caller reads those that stand beside the run (`rl`, `islands`); else refused.

    A flag's text is read as the same text would be in a file; problems name the flag, or the line
    of the run file or of the settings.
    """
    document = read_document(path) if path else Document()
    document = run_part(without_sections(document) if sections else document)
    if not isinstance(document.value, dict):
        raise InputError([document.problem((), "a run is written as `key: value` lines")])
    context = {"in_file": True, "directory": path.parent if path else Path()}
    fields = fields_with(document.value, flags, settings, context)
    try:
        return Run.model_validate(fields, context=context)
    except ValidationError as error:
        faults = faults_of(error, Run)
        raise InputError(
            [_problem(at, message, flags, document, settings) for at, message in faults]
        ) from None


def fields_with(
    stated: dict[str, Any],
    flags: dict[str, str],
    settings: Settings | None,
    context: dict[str, Any],
) -> dict[str, Any]:
    """The keys `stated` of a run, with `settings` and then `flags` over them, and what follows."""
    fields = dict(stated) if settings is None else _with_settings(stated, settings)
    fields = merged(fields, flags, ("gpus", "nodes"))
    if settings is not None and settings.left != DeferredSettings():
        fields = _with_what_follows(fields, flags, settings, context)
    return fields


def _with_settings(fields: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """`fields` with what `settings` state; the framework only where nobody names another."""
    merged = {**fields, **settings.run}
    if isinstance(fields.get("layout", {}), dict):
        merged["layout"] = {**mapping(fields.get("layout")), **settings.layout}
    if isinstance(fields.get("software", {}), dict):
        merged["software"] = {**settings.software, **mapping(fields.get("software"))}
    return merged


def _with_what_follows(
    fields: dict[str, Any], flags: dict[str, str], settings: Settings, context: dict[str, Any]
) -> dict[str, Any]:
    """`fields` with what `settings` state only together with the model and the machine."""
    layout = mapping(fields.get("layout"))
    try:
        cluster = TypeAdapter(ClusterRef).validate_python(fields.get("cluster"), context=context)
        used = cluster.using(fields.get("nodes"), fields.get("gpus_per_node"))
        gpus = fields.get("gpus")
        if fields.get("nodes") is None and isinstance(gpus, int) and gpus > 0:
            used = used.with_gpus(gpus)
        model = TypeAdapter(ModelRef).validate_python(fields.get("model"), context=context)
    except (ValidationError, InputError):  # the run says what is wrong with them
        return fields
    ours = {key: value for key, value in layout.items() if _ours(key, flags, settings)}
    machine = SettingsContext(used.gpus, used.gpus_per_node, model.layers)
    beside = [name.removeprefix("layout.") for name in flags]
    return {**fields, "layout": {**layout, **settings.solved(ours, machine, beside)}}


def _ours(key: str, flags: dict[str, str], settings: Settings) -> bool:
    """True if a key of the layout counts where settings are read: a run file's batch does not."""
    batch = key in ("micro_batch", "global_batch")
    return not batch or key in settings.layout or f"layout.{key}" in flags


def _problem(
    path: KeyPath,
    message: str,
    flags: dict[str, str],
    document: Document,
    settings: Settings | None,
) -> Problem:
    """What is wrong with a value, at the flag or the line that gave it."""
    for key in (".".join(map(str, path[:2])), str(path[0]) if path else ""):
        if key in flags:
            return Problem(f"--{key}", 0, 0, message)
        if settings is not None and key in settings.places:
            return settings.problem(key, message)
    return document.problem(path, message) if document.file else Problem("", 0, 0, message)
