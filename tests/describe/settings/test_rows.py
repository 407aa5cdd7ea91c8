"""Laws of the tables: what a row writes, it reads; rows name fields and keys that exist."""

from typing import Any

import pytest
from hypothesis import given, settings

from syncwall.describe import Layout
from syncwall.describe.settings import DeferredSettings, accelerate, deepspeed, megatron, torchtitan
from syncwall.describe.settings.rows import (
    Keys,
    SettingRow,
    SettingTable,
    WriterContext,
    nested_mapping,
)
from syncwall.documents import Document
from tests.describe.settings.layouts import MODEL, SEQ, layouts

TABLES: dict[str, SettingTable] = {
    "torchtitan": torchtitan.TABLE,
    "megatron": megatron.TABLE,
    "deepspeed": deepspeed.TABLE,
    "accelerate": accelerate._FSDP,
}
ROWS = [(name, row) for name, table in TABLES.items() for row in table.rows]
CONTEXT = WriterContext(seq=SEQ, nodes=2, gpus_per_node=8, layers=MODEL.layers, experts=True)


def keys_of(name: str, flat: dict[str, Any]) -> Keys:
    if name == "megatron":
        arguments = {key: [] if it is True else [str(it)] for key, it in flat.items()}
        return megatron.Arguments(Document("file", arguments))
    return Keys(Document("file", nested_mapping(flat)))


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda one: getattr(one, "key", one))
@settings(max_examples=15, deadline=None)
@given(layouts())
def test_what_a_row_writes_it_reads(name: str, row: SettingRow, layout: Layout):
    flat = row.write(layout.plain(), CONTEXT)
    assert set(flat) <= {row.key}
    keys = keys_of(name, flat)
    keys.layout |= {axis: getattr(layout, axis) for axis in ("tp", "pp", "cp", "ep", "shard")}
    keys.layout.pop(row.field, None)
    if flat:
        row.read(keys)
        kept, _, field = row.field.rpartition(".")
        expected = getattr(CONTEXT if kept else layout.plain(), field)
        assert getattr(keys, kept or "layout")[field] == expected


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda one: getattr(one, "key", one))
def test_a_row_states_a_field_that_there_is(name: str, row: SettingRow):
    kept, _, field = row.field.rpartition(".")
    known = {"": Layout.model_fields, "run": {"seq"}, "deferred": DeferredSettings.__slots__}
    assert field in known[kept]


@pytest.mark.parametrize("module", [torchtitan, deepspeed, accelerate])
def test_keys_of_rows_are_known_to_their_section(module):
    table = getattr(module, "TABLE", None) or module._FSDP
    for row in table.rows:
        section, _, key = row.key.rpartition(".")
        if section in module._KNOWN:
            assert key in module._KNOWN[section].split()
