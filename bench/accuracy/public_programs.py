"""Models of public programs in their own code, trained as the programs do: a script to be recorded.

`python public_programs.py '{"program": ..., "folder": ..., ...}'` with the settings of a line of
throughputs.yaml. `folder` has the program's code. A package that it imports and does not need for a
step is replaced by one that does nothing.
"""

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import MagicMock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

Settings = dict[str, Any]
Loss = Callable[[nn.Module], torch.Tensor]


@dataclass(frozen=True)
class Trained:
    model: nn.Module
    loss: Loss
    """Of one micro batch."""
    layers: list[nn.Module] = field(default_factory=list)
    """What is sharded, and computed again, by itself."""
    after: Callable[[], None] = lambda: None
    """What the program does after the optimizer."""


def tokens(settings: Settings, vocabulary: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (settings["batch"], settings["length"]), device="cuda")


def images(settings: Settings, size: int = 224, channels: int = 3) -> torch.Tensor:
    found = torch.randn(settings["batch"], channels, size, size, device="cuda")
    return found.to(memory_format=torch.channels_last) if settings.get("channels_last") else found


def classes(settings: Settings, count: int = 1000) -> torch.Tensor:
    return torch.randint(0, count, (settings["batch"],), device="cuda")


def next_token(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def nanogpt(settings: Settings) -> Trained:
    from model import GPT, GPTConfig  # type: ignore[import-not-found]

    model = GPT(GPTConfig(block_size=1024, n_layer=12, n_head=12, n_embd=768, dropout=0.0))

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, 50257)
        return model(given, given)[1]

    return Trained(model, loss)


def dit(settings: Settings) -> Trained:
    from copy import deepcopy

    from diffusion import create_diffusion  # type: ignore[import-not-found]
    from models import DiT_models  # type: ignore[import-not-found]

    model = DiT_models[settings["model"]](input_size=32, num_classes=1000)
    averaged = deepcopy(model).requires_grad_(False)
    diffusion = create_diffusion(timestep_respacing="")

    def loss(model: nn.Module) -> torch.Tensor:
        time = torch.randint(0, 1000, (settings["batch"],), device="cuda")
        given = {"y": classes(settings)}
        found = diffusion.training_losses(model, images(settings, 32, 4), time, given)
        return found["loss"].mean()

    def average() -> None:
        with torch.no_grad():
            for kept, new in zip(averaged.parameters(), model.parameters(), strict=True):
                kept.mul_(0.9999).add_(new.data, alpha=1 - 0.9999)

    return Trained(model, loss, after=average)


def mae(settings: Settings) -> Trained:
    import numpy as np
    import timm.models.vision_transformer as transformer  # type: ignore[import-not-found]

    np.float = float  # type: ignore[attr-defined]  # as until NumPy 1.20
    block = transformer.Block

    @functools.wraps(block)
    def old_block(*args: Any, qk_scale: None = None, **kwargs: Any) -> nn.Module:
        return block(*args, **kwargs)

    transformer.Block = old_block
    import models_mae  # type: ignore[import-not-found]

    model = models_mae.__dict__[settings["model"]](norm_pix_loss=True)
    return Trained(model, lambda model: model(images(settings), mask_ratio=0.75)[0])


def timm_model(settings: Settings) -> Trained:
    import timm

    model = timm.create_model(settings["model"])
    return Trained(model, lambda model: functional.cross_entropy(model(images(settings)), classes(settings)))


def convnet(settings: Settings) -> Trained:
    import image_classification.models as made  # type: ignore[import-not-found]

    model = getattr(made, settings["model"])(pretrained=False)

    def loss(model: nn.Module) -> torch.Tensor:
        return functional.cross_entropy(model(images(settings)), classes(settings), label_smoothing=0.1)

    return Trained(model, loss)


def bert(settings: Settings) -> Trained:
    import modeling  # type: ignore[import-not-found]

    gelu = modeling.F.gelu
    modeling.F.gelu = lambda x, approximate: gelu(x, approximate="tanh" if approximate else "none")
    config = modeling.BertConfig.from_json_file(f"{settings['folder']}/bert_configs/large.json")
    config.vocab_size += -config.vocab_size % 8
    model = modeling.BertForPreTraining(config, sequence_output_is_dense=False)

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, config.vocab_size)
        words, follows = model(given, torch.zeros_like(given), torch.ones_like(given), given)
        found = functional.cross_entropy(words.view(-1, config.vocab_size), given.view(-1))
        return found + functional.cross_entropy(follows.view(-1, 2), classes(settings, 2))

    return Trained(model, loss)


def transformer_xl(settings: Settings) -> Trained:
    from mem_transformer import MemTransformerLM  # type: ignore[import-not-found]

    words, length, width = 267735, settings["length"], 512
    model = MemTransformerLM(
        words, 16, 8, width, 64, 2048, 0.1, 0.0, None, tie_weight=True, d_embed=width, div_val=1,
        tie_projs=[False, True, True, True], tgt_len=length, ext_len=0, mem_len=length,
        cutoffs=[19997, 39997, 199997],
    )  # fmt: skip
    kept: list[Any] = [None]

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, words).t().contiguous()
        found, kept[0] = model(given, given, kept[0])
        return found.float().mean()

    return Trained(model, loss)


def litgpt_model(settings: Settings) -> Trained:
    from litgpt import GPT, Config  # type: ignore[import-not-found]

    model = GPT(Config.from_name(settings["model"]))

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, 32000)
        return next_token(model(given), given)

    return Trained(model, loss, list(model.transformer.h))


def fms_model(settings: Settings) -> Trained:
    from fms.models import llama  # type: ignore[import-not-found]

    model = llama.LLaMA(llama.LLaMAConfig())

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, 32000)
        found = model(given)
        return next_token(found[0] if isinstance(found, tuple) else found, given)

    return Trained(model, loss, list(model.base_model.layers))


def hugging_face_llama(settings: Settings) -> Trained:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**settings["config"]))
    model.gradient_checkpointing_enable()

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, settings["config"]["vocab_size"])
        return model(input_ids=given, labels=given, use_cache=False).loss

    return Trained(model, loss, list(model.model.layers))


def torchtune_llama(settings: Settings) -> Trained:
    from torchtune.models.llama3_2 import llama3_2_3b  # type: ignore[import-not-found]

    model = llama3_2_3b()

    def loss(model: nn.Module) -> torch.Tensor:
        given = tokens(settings, 128256)
        return next_token(model(given), given)

    return Trained(model, loss, list(model.layers))


def stable_diffusion(settings: Settings) -> Trained:
    from diffusers import UNet2DConditionModel  # type: ignore[import-not-found]

    model = UNet2DConditionModel(
        sample_size=64,
        attention_head_dim=[5, 10, 20, 20],
        cross_attention_dim=1024,
        use_linear_projection=True,
    )

    def loss(model: nn.Module) -> torch.Tensor:
        noised = images(settings, settings["size"] // 8, 4)
        text = torch.randn(settings["batch"], 77, 1024, device="cuda", dtype=torch.float16)
        time = torch.randint(0, 1000, (settings["batch"],), device="cuda")
        return functional.mse_loss(model(noised, time, text)["sample"].float(), noised)

    return Trained(model, loss)


PROGRAMS: Final[dict[str, Callable[[Settings], Trained]]] = {
    "nanoGPT": nanogpt,
    "fast-DiT": dit,
    "MAE": mae,
    "timm": timm_model,
    "NVIDIA ConvNets": convnet,
    "NVIDIA BERT": bert,
    "NVIDIA Transformer-XL": transformer_xl,
    "litgpt": litgpt_model,
    "fms-fsdp": fms_model,
    "XTuner": hugging_face_llama,
    "torchtune": torchtune_llama,
    "MosaicML diffusion": stable_diffusion,
}
_IDLE: Final = {
    "NVIDIA BERT": ("boto3", "botocore", "botocore.exceptions", "dllogger"),
    "NVIDIA Transformer-XL": ("dllogger", "pynvml"),
    "torchtune": ("datasets", "datasets.distributed", "sentencepiece"),
}


def wrapped(made: Trained, settings: Settings) -> Any:
    model, way = made.model, settings.get("shard", "none")
    if settings.get("recompute"):
        for layer in made.layers:
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    if way == "ddp" and dist.get_world_size() > 1:
        return DistributedDataParallel(model)
    if way in {"fsdp", "zero2", "hsdp"}:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(settings.get("parameters", ""))
        how: dict[str, Any] = {"reshard_after_forward": way != "zero2"}
        if dtype:
            how["mp_policy"] = MixedPrecisionPolicy(dtype, dtype)
        if way == "hsdp":
            shape = (dist.get_world_size() // 8, 8)
            how["mesh"] = init_device_mesh("cuda", shape, mesh_dim_names=("dp_replicate", "dp_shard"))
        for part in [*made.layers, model]:
            fully_shard(part, **how)
    return model


@contextlib.contextmanager
def precision(settings: Settings) -> Iterator[None]:
    kind = settings["precision"]
    if kind.startswith("amp"):
        with torch.autocast("cuda", torch.float16 if kind == "amp-fp16" else torch.bfloat16):
            yield
    else:
        yield


def optimizer_of(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    if settings["optimizer"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=settings["optimizer"] == "fused-adamw")


def train(settings: Settings) -> None:
    torch.backends.cuda.matmul.allow_tf32 = settings["precision"] != "fp32"
    dist.init_process_group("nccl")
    made = PROGRAMS[settings["program"]](settings)
    if settings["precision"] == "bf16" and not settings.get("parameters"):
        made.model.to(torch.bfloat16)
    if settings.get("channels_last"):
        made.model.to(memory_format=torch.channels_last)
    model = wrapped(made, settings)
    optimizer = optimizer_of(model, settings)
    scaler = torch.amp.GradScaler("cuda", enabled=settings["precision"] == "amp-fp16")
    for _ in range(3):
        for _ in range(settings.get("accumulate", 1)):
            with precision(settings):
                loss = made.loss(model)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        made.after()


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    sys.path.insert(0, told["folder"])
    for name in _IDLE.get(told["program"], ()):
        sys.modules.setdefault(name, MagicMock())
    os.environ["TIMM_FUSED_ATTN"] = str(int(not told.get("unfused")))
    torch.set_default_device("cuda")
    train(told)
