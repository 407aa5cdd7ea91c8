"""A Llama-like decoder in plain PyTorch, sharded with FSDP2: a script for torchrun.

torchrun --nproc-per-node 8 llama_fsdp2.py --layers 32 --tp 4 --recompute full
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

ATTENTION = (
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.wq(x).view(batch, length, -1, self.head_dim)
        k = self.wk(x).view(batch, length, -1, self.head_dim)
        v = self.wv(x).view(batch, length, -1, self.head_dim)
        q, k, v = (
            rotated(q, turns).transpose(1, 2),
            rotated(k, turns).transpose(1, 2),
            v.transpose(1, 2),
        )
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


def rotated(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None]).flatten(-2).type_as(x)


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        kv_heads: int,
        hidden: int,
        vocabulary: int,
        length: int,
    ) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        turns = torch.empty(length, width // heads // 2, dtype=torch.complex64)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.turns[: tokens.shape[1]])
        return self.output(self.norm(x))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, default in {
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "kv-heads": 8,
        "hidden": 14336,
        "vocabulary": 128256,
        "length": 8192,
        "batch": 1,
        "steps": 10,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tp", type=int, default=1, help="tensor-parallel ranks")
    parser.add_argument("--replicas", type=int, default=1, help="of HSDP")
    parser.add_argument("--accumulate", type=int, default=1, help="micro batches of a step")
    parser.add_argument("--recompute", choices=("none", "selective", "full"), default="none")
    parser.add_argument("--compile", action="store_true", help="each layer by itself")
    return parser.parse_args()


def split_over(model: Llama, mesh: DeviceMesh) -> None:
    """Tensor and sequence parallelism, as torchtitan does it."""
    parallelize_module(
        model,
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w3": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )


def keeps() -> tuple[object, object]:
    """Attention and every second product are kept, as by torchtitan's selective recomputation."""
    counts: dict[bool, int] = {False: 0, True: 0}

    def kept(context: object, operation: object, *_: object, **__: object) -> CheckpointPolicy:
        again = bool(context.is_recompute)  # type: ignore[attr-defined]
        if operation is torch.ops.aten.mm.default:
            counts[again] += 1
            keep = counts[again] % 2 == 1
        else:
            keep = operation in ATTENTION
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(kept)


def main() -> None:
    args = arguments()
    dist.init_process_group("nccl")
    shards = dist.get_world_size() // args.tp // args.replicas
    sizes = {"dp_replicate": args.replicas, "dp_shard": shards, "tp": args.tp}
    used = {name: size for name, size in sizes.items() if size > 1 or name == "dp_shard"}
    mesh = init_device_mesh("cuda", tuple(used.values()), mesh_dim_names=tuple(used))
    with torch.device("meta"):
        model = Llama(
            args.layers,
            args.width,
            args.heads,
            args.kv_heads,
            args.hidden,
            args.vocabulary,
            args.length,
        )
    if args.tp > 1:
        split_over(model, mesh["tp"])
    for number, layer in enumerate(model.layers):
        if args.recompute == "full":
            model.layers[number] = checkpoint_wrapper(layer)
        elif args.recompute == "selective":
            model.layers[number] = checkpoint_wrapper(layer, context_fn=keeps)
        if args.compile:
            model.layers[number].compile()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    data = mesh["dp_replicate", "dp_shard"] if args.replicas > 1 else mesh["dp_shard"]
    for layer in model.layers:
        fully_shard(layer, mesh=data, mp_policy=policy)
    fully_shard(model, mesh=data, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(args.steps):
        for _ in range(args.accumulate):
            tokens = torch.randint(args.vocabulary, (args.batch, args.length + 1), device="cuda")
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
