"""Images as tokens: shapes, published sizes, and a diffusion transformer built in torch."""

from typing import Any

import pytest
from pydantic import ValidationError

from syncwall.describe import Layout, Model, Run, lookup
from syncwall.describe.transformer import Patches
from syncwall.problems import InputError
from syncwall.work.flops import forward_flops
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import cluster

SMALL: dict[str, Any] = {
    "name": "small",
    "layers": 3,
    "hidden": 128,
    "norm": {"kind": "none"},
    "head_bias": True,
    "patches": {"image": 16, "size": 2, "channels": 4, "predicted": 8},
    "conditioning": {"classes": 11},
    "learned_positions": 64,
    "mlp": {"hidden": 512, "gated": False, "bias": True},
    "attention": {"heads": 4, "causal": False, "qkv_bias": True, "output_bias": True},
}


def test_an_image_of_224_pixels_is_257_tokens():
    patches = Patches(image=224, size=14, extra_tokens=1)
    assert (patches.tokens, patches.width) == (257, 588)


def test_patches_must_divide_the_image():
    with pytest.raises(ValidationError, match="patches of 14 pixels do not divide images of 225"):
        Patches(image=225, size=14)


def test_a_model_has_either_a_vocabulary_or_patches():
    for changes in ({"vocab": 100}, {"patches": None}):
        with pytest.raises(ValidationError, match="either `vocab` or `patches` or `frames`"):
            Model.model_validate(SMALL | changes)
    with pytest.raises(ValidationError, match="only logits of a vocabulary"):
        Model.model_validate(SMALL | {"tied_embeddings": True})


def test_the_sequence_of_an_image_follows_from_its_patches():
    run = Run(model=Model.model_validate(SMALL), cluster=cluster())
    assert run.seq == 64
    with pytest.raises((InputError, ValidationError), match="64 tokens: change its size"):
        Run(model=Model.model_validate(SMALL), cluster=cluster(), seq=128)


def test_a_diffusion_transformer_has_the_published_size():
    """675M parameters; 119 "Gflops" in its repository, which count a multiply-add as one."""
    model = lookup.model("dit-xl-2")
    assert model.parameters / 1e6 == pytest.approx(675, abs=0.5)
    forward, _ = forward_flops(model, model.train_seq or 0)
    assert forward / 2e9 == pytest.approx(119, abs=0.5)


def test_the_vision_transformer_of_the_catalogue_is_what_transformers_builds():
    assert lookup.model("vit-h-14").parameters == 632_045_800


def _diffusion_transformer(model: Any) -> Any:
    """Of `model`, from the description of the paper: adaLN-Zero in every block."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    nn, hidden, patches = torch.nn, model.hidden, model.patches
    width, classes = model.mlp.hidden, model.conditioning.classes

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.mlp = nn.Sequential(nn.Linear(hidden, width), nn.GELU(), nn.Linear(width, hidden))
            self.modulation = nn.Linear(hidden, 6 * hidden)

        def forward(self, x: Any, condition: Any) -> Any:
            shift, scale, gate, later_shift, later_scale, later_gate = (
                self.modulation(condition).unsqueeze(1).chunk(6, dim=-1)
            )
            y = nn.functional.layer_norm(x, (hidden,)) * (1 + scale) + shift
            query, key, value = (
                part.unflatten(-1, (model.attention.heads, -1)).transpose(1, 2)
                for part in self.into(y).chunk(3, dim=-1)
            )
            scores = (query @ key.transpose(-1, -2)).softmax(-1)
            x = x + gate * self.out((scores @ value).transpose(1, 2).flatten(2))
            y = nn.functional.layer_norm(x, (hidden,)) * (1 + later_scale) + later_shift
            return x + later_gate * self.mlp(y)

    class Diffusion(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(patches.channels, hidden, patches.size, patches.size)
            self.positions = nn.Parameter(torch.zeros(patches.count, hidden))
            self.time = nn.Sequential(nn.Linear(256, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
            self.labels = nn.Embedding(classes, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(model.layers))
            self.modulation = nn.Linear(hidden, 2 * hidden)
            self.head = nn.Linear(hidden, model.head_width)

        def forward(self, image: Any, time: Any, label: Any) -> Any:
            x = self.patches(image).flatten(2).transpose(1, 2) + self.positions
            condition = self.time(time) + self.labels(label)
            for block in self.blocks:
                x = block(x, condition)
            shift, scale = self.modulation(condition).unsqueeze(1).chunk(2, dim=-1)
            return self.head(nn.functional.layer_norm(x, (hidden,)) * (1 + scale) + shift)

    return Diffusion()


def test_a_diffusion_transformer_in_torch_has_as_many_parameters_and_flops():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils.flop_counter import FlopCounterMode

    model, batch = Model.model_validate(SMALL), 2
    real = _diffusion_transformer(model)
    assert model.parameters == sum(parameter.numel() for parameter in real.parameters())
    with FlopCounterMode(display=False) as counter:
        labels = torch.zeros(batch, dtype=torch.long)
        real(torch.rand(batch, 4, 16, 16), torch.rand(batch, 256), labels).sum().backward()
    step = transformer_step(model, Layout(global_batch=batch).resolved(1), 64)
    assert step.model_flops == pytest.approx(counter.get_total_flops(), rel=0.005)
