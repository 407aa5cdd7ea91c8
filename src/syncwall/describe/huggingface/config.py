"""Reading a Hugging Face configuration, with complaints that point at the line.

Holds `Config`, which is asked for single values, and the plain decoder from which every
architecture differs by name: `plain` (RMS norm, gated MLP, no biases, as Llama has it), and the
common differences `window` and `attention_bias`.
"""

from collections.abc import Mapping
from typing import Any, Final

from syncwall.describe.base import MOST_LAYERS
from syncwall.documents import Document
from syncwall.problems import Problem


class Config:
    """A configuration that is asked for values by any of the names that people gave them.

    A value that is missing or of the wrong kind is written down in `problems` and read as 1 (or
    False), so that one reading finds all of them.
    """

    def __init__(self, document: Document, value: dict[str, Any], where: tuple[str, ...]) -> None:
        self.value = value
        self.problems: list[Problem] = []
        self._document = document
        self._where = where

    def assume(self, **defaults: Any) -> None:
        """Take these values where the file is silent."""
        self.value = defaults | self.value

    def rename(self, names: Mapping[str, str]) -> None:
        """Take the values that the file has under other names; dots lead into inner objects."""
        for ours, theirs in names.items():
            found: Any = self.value
            for key in theirs.split("."):
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                self.value = self.value | {ours: found}

    def complain(self, key: str, message: str) -> None:
        """Write down what is wrong with `key`."""
        self.problems.append(self._document.problem((*self._where, key), message))

    def inner(self, key: str) -> "Config | None":
        """The configuration under `key`; None if there is none, or if it says nothing."""
        found = self.value.get(key)
        if not isinstance(found, dict) or not found:
            return None
        return Config(self._document, found, (*self._where, key))

    def has(self, key: str) -> bool:
        """True if `key` is there and not null."""
        return self.value.get(key) is not None

    def whole(self, *names: str, default: int | None = None) -> int:
        """The whole number under the first of `names` that is there."""
        for name in names:
            found = self.value.get(name)
            if found is None:
                continue
            if isinstance(found, list) and len(set(map(str, found))) == 1:
                found = found[0]  # one a layer, all alike
            if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 2**40:
                self.complain(name, f'"{name}" must be a whole number, not {found!r}')
                return 1
            return found
        if default is None:
            self.complain(names[0], f'"{names[0]}" is missing')
            return 1
        return default

    def layers(self, *names: str) -> int:
        """The number of layers under one of `names`: of each something may be written down."""
        found = self.whole(*names)
        if found <= MOST_LAYERS:
            return found
        name = next(name for name in names if self.has(name))
        self.complain(name, f"{found} is out of range: write 1 to {MOST_LAYERS:,}")
        return 1

    def optional(self, *names: str) -> int | None:
        """The whole number under the first of `names` that is there, or None."""
        return self.whole(*names) if any(map(self.has, names)) else None

    def flag(self, name: str, *, default: bool) -> bool:
        """The boolean under `name`."""
        found = self.value.get(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.complain(name, f'"{name}" must be true or false, not {found!r}')
            return default
        return found

    def kinds(self, name: str) -> list[str]:
        """The list of words under `name`; empty if there is none."""
        found = self.value.get(name)
        return [str(kind) for kind in found] if isinstance(found, list) else []


Fields = dict[str, Any]

LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "n_embed")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_POSITIONS: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def llama_like(c: Config, *, tied: bool = False, mlp: bool = True) -> Fields:
    """A decoder as Llama has it.

    `tied` is what the architecture does if the file is silent; without `mlp` it adds its own.
    """
    heads = c.whole(*HEADS)
    fields: Fields = {
        "layers": c.layers(*LAYERS),
        "hidden": c.whole(*HIDDEN),
        "vocab": c.whole("vocab_size"),
        "attention": {"heads": heads, "kv_heads": c.whole("num_key_value_heads", default=heads)},
        "tied_embeddings": c.flag("tie_word_embeddings", default=tied),
        "max_seq": c.optional(*_POSITIONS),
        "mtp_layers": c.whole("num_nextn_predict_layers", default=0),
    }
    if c.has("head_dim"):
        fields["attention"]["head_dim"] = c.whole("head_dim")
    if mlp:
        fields["mlp"] = {"hidden": c.whole("intermediate_size")}
    return fields


def add_sliding_window(c: Config, fields: Fields, *, full_every: int = 0) -> Fields:
    """Add a sliding window if the configuration uses one; layer kinds, if listed, say where."""
    kinds = c.kinds("layer_types")
    first = False
    if kinds:
        full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
        if len(full) == len(kinds):
            return fields
        first = full[:1] == [0]
        every = _every(full, len(kinds), first=first)
        if every is None:
            c.complain("layer_types", "full attention must come at every n-th layer")
            return fields
        full_every = every
    if c.has("sliding_window") and full_every != 1:
        attention = {"window": c.whole("sliding_window"), "full_every": full_every}
        fields["attention"] |= attention | ({"full_first": True} if first else {})
    return fields


def _every(full: list[int], layers: int, *, first: bool) -> int | None:
    """Layers of which one, the `first` or the last, is `full`; 0 if none, None if it varies."""
    if not full:
        return 0
    every = (full[1] if len(full) > 1 else layers) if first else full[0] + 1
    return every if full == list(range(0 if first else every - 1, layers, every)) else None


def attention_bias(
    c: Config, fields: Fields, flag: str = "attention_bias", *, default: bool = False
) -> Fields:
    """Give attention biases before and after, if the configuration says so."""
    bias = c.flag(flag, default=default)
    fields["attention"] |= {"qkv_bias": bias, "output_bias": bias}
    return fields
