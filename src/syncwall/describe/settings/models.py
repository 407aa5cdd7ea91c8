"""The model that a settings file names or describes, and other files that it names.

Holds `take_named` (a name of the hub or a path), `take_flavor` (torchtitan), `take_shape` (the
arguments of Megatron-LM, as the keys of `Model`) and `named_document` (settings inside settings).
Settings that somebody pasted into a page name files of another machine: none of them is looked for.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.lookup import model
from syncwall.describe.names import files_refused, hub_model, is_hub_id, looks_like_path
from syncwall.describe.settings.rows import Keys
from syncwall.documents import Document, read_document
from syncwall.problems import InputError

_FLAVORS: Final = {
    "llama4/17bx16e": "llama-4-scout",
    "llama4/17bx128e": "llama-4-maverick",
    "deepseek_v3/16b": "deepseek-v2-lite",
    "deepseek_v3/236b": "deepseek-v2",
    "deepseek_v3/671b": "deepseek-v3",
}
_FAMILIES: Final = {"llama2": "llama-2", "llama3": "llama-3.1", "gpt_oss": "gpt-oss"}
"""torchtitan's words for models, and the catalogue's."""
_VOCABULARIES: Final = {"GPT2BPETokenizer": 50257, "Llama2Tokenizer": 32000}
_USUAL_VOCABULARY: Final = 50257
_SHAPE: Final = ("--num-layers", "--hidden-size", "--num-attention-heads")
_PATTERNS: Final = ("--hybrid-layer-pattern", "--hybrid-override-pattern")
_PLACES: Final = ("dense_first", "every")
"""Where experts are, of which a pattern says more."""
_DENSE_FIRST: Final = re.compile(r"\[0\]\*(\d+)\+\[1\]")


def take_named(keys: Keys, key: str) -> None:
    """Take the model whose name on the hub, or whose folder, is the value at `key`."""
    name = keys.value(key)
    if name is None:
        return
    config = _config_beside(Path(keys.file).parent / str(name))
    if config is not None:
        keys.take("run.model", str(config), key)
    elif _is_unknown(str(name)):
        keys.note(f'"{name}" is not known here: name the model with --model', key)
    else:
        keys.take("run.model", str(name), key)


def _config_beside(named: Path) -> Path | None:
    """The configuration of a model in a file or folder, if there is one and it may be read."""
    if files_refused():
        return None
    found = named / "config.json" if named.is_dir() else named
    return found if found.is_file() else None


def _is_unknown(name: str) -> bool:
    """True for a name of the hub that stands for nothing here, or a path that must not be read."""
    if is_hub_id(name):
        return hub_model(name, files=not files_refused()) is None
    return files_refused() and looks_like_path(name)


def named_document(file: str, keys: Keys) -> Document:
    """The file that settings name: beside them, or as seen from here."""
    if files_refused():
        raise InputError.of("it is a file of its own, which was not given")
    beside = Path(keys.file).parent / file
    return read_document(beside if beside.is_file() else Path(file))


def take_flavor(keys: Keys) -> None:
    """Take torchtitan's model: `name = "llama3"`, `flavor = "8B"`."""
    at = "model.flavor"
    name, flavor = (str(keys.value(f"model.{key}") or "").lower() for key in ("name", "flavor"))
    if not name or not flavor:
        return
    family = _FAMILIES.get(name, name)
    found = _FLAVORS.get(f"{name}/{flavor}", f"{family}-{flavor}")
    try:
        keys.take("run.model", catalogue.find(CatalogueKind.MODEL, found).stem, at)
    except InputError:
        keys.note(f'"{flavor}" of {name} is not known here: name the model with --model', at)


def take_shape(keys: Keys, given: Collection[str]) -> None:
    """Take the model that Megatron-LM's arguments describe, if they do."""
    flag = next((name for name in _PATTERNS if name in given), None)
    letters = _letters(str(keys.value(flag))) if flag else ""
    if not all(name in given for name in _SHAPE if not (letters and name == "--num-layers")):
        return
    layers, hidden, heads = (keys.whole(name) for name in _SHAPE)
    layers = len(letters) or layers
    if None in (layers, hidden, heads):
        return
    assert hidden is not None
    gated, bias = "--swiglu" in given, "--disable-bias-linear" not in given
    usual = int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden
    width = keys.whole("--ffn-hidden-size") or usual
    fields: dict[str, Any] = {
        "name": f"model of {Path(keys.file).name}",
        "layers": layers,
        "hidden": hidden,
        "vocab": _vocabulary(keys),
        "attention": _attention(keys, given, heads or 1, bias=bias),
        "mlp": {"hidden": width, "gated": gated, "bias": bias},
        "norm": {"kind": "rms" if keys.value("--normalization") == "RMSNorm" else "layer"},
        "tied_embeddings": "--untie-embeddings-and-output-weights" not in given,
        "learned_positions": _learned_positions(keys, given),
        "mtp_layers": keys.whole("--mtp-num-layers") or 0,
    }
    if "--num-experts" in given:
        fields["moe"] = _experts(keys, width)
    if letters:
        fields |= _hybrid(keys, fields, letters)
    keys.take("run.model", fields, flag or "--num-layers")


def _letters(pattern: str) -> str:
    """Layers of a hybrid without the marks of pipeline stages and without predicted tokens."""
    return pattern.partition("/")[0].replace("|", "").strip("'\"")


def _hybrid(keys: Keys, fields: dict[str, Any], letters: str) -> dict[str, Any]:
    """What a pattern of `letters` changes, with the defaults of Megatron-Core's Mamba layers."""
    head_dim = keys.whole("--mamba-head-dim") or 64
    mixer = {
        "kind": "mamba-2",
        "heads": keys.whole("--mamba-num-heads") or 2 * fields["hidden"] // head_dim,
        "head_dim": head_dim,
        "key_heads": keys.whole("--mamba-num-groups") or 8,
        "key_dim": keys.whole("--mamba-state-dim") or 128,
        "conv_bias": True,
        "chunk": 128,
    }
    changed: dict[str, Any] = {"pattern": " ".join(letters)}
    changed["mixer"] = mixer if "M" in letters else None
    changed["mlp"] = fields["mlp"] if "-" in letters else None
    if "moe" in fields:
        own = {name: n for name, n in fields["moe"].items() if name not in _PLACES}
        gated = fields["mlp"]["gated"]
        changed["moe"] = own | {"gated": gated} if "E" in letters else None
    return changed


def _attention(keys: Keys, given: Collection[str], heads: int, *, bias: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "heads": heads,
        "qkv_bias": bias or "--add-qkv-bias" in given,
        "output_bias": bias,
        "qk_norm": "head" if "--qk-layernorm" in given else "none",
    }
    if "--group-query-attention" in given or "--num-query-groups" in given:
        fields["kv_heads"] = keys.whole("--num-query-groups") or 1
    if "--kv-channels" in given:
        fields["head_dim"] = keys.whole("--kv-channels")
    if "--multi-latent-attention" in given:
        fields["latent"] = {
            "kv_rank": keys.whole("--kv-lora-rank") or 512,
            "q_rank": keys.whole("--q-lora-rank"),
            "nope_dim": keys.whole("--qk-head-dim") or 128,
            "rope_dim": keys.whole("--qk-pos-emb-head-dim") or 64,
            "v_dim": keys.whole("--v-head-dim") or 128,
        }
    return fields


def _experts(keys: Keys, width: int) -> dict[str, Any]:
    freq = str(keys.value("--moe-layer-freq") or "1")
    dense = _DENSE_FIRST.search(freq)
    return {
        "experts": keys.whole("--num-experts") or 1,
        "top_k": keys.whole("--moe-router-topk") or 2,
        "hidden": keys.whole("--moe-ffn-hidden-size") or width,
        "shared_hidden": keys.whole("--moe-shared-expert-intermediate-size") or 0,
        "latent": keys.whole("--moe-latent-size"),
        "dense_first": int(dense[1]) if dense else 0,
        "every": int(freq) if freq.isdecimal() and int(freq) else 1,
    }


def _learned_positions(keys: Keys, given: Collection[str]) -> int:
    kind = keys.value("--position-embedding-type") or "learned_absolute"
    rotary = "--use-rotary-position-embeddings" in given
    learned = kind == "learned_absolute" and not rotary
    return (keys.whole("--max-position-embeddings") or 0) if learned else 0


def _vocabulary(keys: Keys) -> int:
    """Rows of the embedding, from the arguments or from the tokenizer that they name."""
    stated = keys.whole("--vocab-size") or keys.whole("--padded-vocab-size")
    if stated is not None:
        return stated
    kind, name = keys.value("--tokenizer-type"), str(keys.value("--tokenizer-model") or "")
    if kind in _VOCABULARIES:
        return _VOCABULARIES[kind]
    found = hub_model(name, files=False) if is_hub_id(name) else None
    if found is not None:
        return int(model(found).vocab)
    said = f"the vocabulary is not stated: {_USUAL_VOCABULARY:,} rows (GPT-2) are taken"
    keys.note(f"{said}; write --vocab-size", "--num-layers")
    return _USUAL_VOCABULARY
