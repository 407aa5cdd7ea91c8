"""Modules counted as stacks, beside what PyTorch counts of a real step on the CPU."""

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from syncwall.answer.prediction import predict  # noqa: E402
from syncwall.capture.stack import stack_of_calls, written  # noqa: E402
from syncwall.capture.step_function import capturing  # noqa: E402
from syncwall.describe import Model, Run, lookup  # noqa: E402
from syncwall.describe.layer_kinds import of_a_sample  # noqa: E402
from tests.capture.models import resnet_50  # noqa: E402
from tests.capture.stable_diffusion import UNet, unet_inputs  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
SAMPLES = 2


def named_resnet():
    """ResNet-50 whose layers have names in the place of numbers."""
    blocks = [f"stage{n}_{i}" for n, count in enumerate((3, 4, 6, 3), 1) for i in range(count)]
    names = ["convolution", "norm", "relu", "max_pool", *blocks, "mean", "flat", "head"]
    return nn.Sequential(OrderedDict(zip(names, resnet_50(), strict=True)))


def small_resnet():
    return named_resnet(), (torch.randn(SAMPLES, 3, 64, 64),)


def small_unet():
    unet = UNet(channels=32, text=48, head=16)
    return unet, unet_inputs(unet, SAMPLES, 16, text=48)


def counted_by_torch(module, inputs) -> dict[str, float]:
    """FLOP forward of each module for one sample; attention as the products it is made of, which
    PyTorch counts, while its fused kernel for the CPU is not known to the counter.
    """
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        module(*inputs)
    found = counter.get_flop_counts().items()
    return {name: sum(operations.values()) / SAMPLES for name, operations in found}


def really_kept(module, inputs) -> float:
    """Bytes that autograd saves in a real forward pass in bf16, but for weights and their state."""
    own = {one.untyped_storage().data_ptr() for one in module.state_dict().values()}
    found: dict[int, Any] = {}

    def saved(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        out = module(*inputs)
    kept = float(sum(one.nbytes() for one in found.values()))
    out.sum().backward()  # a real step: what was saved is enough for it
    assert all(one.grad is not None for one in module.parameters())
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("built", [small_resnet, small_unet])
def test_a_stack_is_what_a_real_step_does(built):
    """Parameters exact, FLOPs within 0.5%, activations within 5% of the whole."""
    torch.manual_seed(0)
    module, inputs = built()
    found = stack_of_calls(module, *inputs)
    sums = of_a_sample(found.stack or ())
    assert found.parameters == sum(one.numel() for one in module.parameters())
    flops = counted_by_torch(module, inputs)["Global"]
    assert sums["forward_flops"] == pytest.approx(flops, rel=0.005)
    module, inputs = module.bfloat16(), [one.bfloat16() for one in inputs]
    kept = really_kept(module, inputs)
    assert sums["activation_bytes"] == pytest.approx(kept / SAMPLES, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("built", [small_resnet, small_unet])
def test_stages_are_what_pytorch_counts_in_them(built):
    module, inputs = built()
    by_module = counted_by_torch(module, inputs)
    for layer in stack_of_calls(module, *inputs).stack or ():
        if layer.name == "outside":
            assert layer.parameters == layer.forward_flops == 0
            continue
        flops = by_module.get(f"{type(module).__name__}.{layer.name}", 0.0)
        assert layer.forward_flops == pytest.approx(flops, rel=0.005)
        part = module.get_submodule(layer.name)
        assert layer.parameters == sum(one.numel() for one in part.parameters())


@pytest.mark.slow
def test_published_sizes():
    """25.6M and 4.09 G multiply-adds (torchvision), 859,520,964 and 865,910,724 (diffusers)."""
    with torch.device("meta"):
        resnet = stack_of_calls(named_resnet(), torch.empty(1, 3, 224, 224))
        sizes = [sum(p.numel() for p in UNet(text=text).parameters()) for text in (768, 1024)]
    assert resnet.parameters == 25_557_032
    assert of_a_sample(resnet.stack or ())["forward_flops"] / 2e9 == pytest.approx(4.09, abs=0.005)
    assert sizes == [859_520_964, 865_910_724]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet-50", "unet-sd2-256", "unet-sd2-512"])
def test_the_examples_are_what_is_counted(name):
    with torch.device("meta"):
        module = named_resnet() if name == "resnet-50" else UNet()
        if name == "resnet-50":
            inputs = (torch.empty(1, 3, 224, 224),)
        else:
            inputs = unet_inputs(module, 1, int(name[-3:]) // 8)
        found = stack_of_calls(module, *inputs, name=name)
    assert (EXAMPLES / f"{name}.yaml").read_text().endswith(written(found))


def test_what_is_written_is_read_again(tmp_path):
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    found = stack_of_calls(module, torch.empty(3, 8), name="small")
    (tmp_path / "small.yaml").write_text(written(found))
    assert lookup.model(str(tmp_path / "small.yaml")) == found
    assert {one.name: one.parameters for one in found.stack or ()}["0"] == 72


def test_named_layers_hold_all_that_is_inside():
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return self.body(x) * self.scale

    found: Model = stack_of_calls(Net(), torch.empty(2, 8), layers=["body"])
    body, rest = found.stack or ()
    assert (body.name, body.parameters, body.forward_flops) == ("body", 144, 2 * 2 * 64)
    assert (rest.name, rest.parameters, rest.forward_flops) == ("outside", 8, 0)


def test_equal_layers_become_one_entry():
    module = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(4)))
    found = stack_of_calls(module, torch.empty(1, 8, requires_grad=True))
    assert sum(one.repeat for one in found.stack or ()) == 4
    assert len(found.stack or ()) < 4


def test_the_script_of_the_page_writes_a_model(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "explanation" / "stacks.md"
    (script,) = re.findall(r"^```python\n(# count\.py\n.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    assert lookup.model("small.yaml").parameters == 3 * 9 * 64 + 64 + 128 + 64 * 9 * 64 + 64


def recorded_s(build, samples: int) -> float:
    """Seconds of one step on an A100 whose kernels were recorded one by one."""
    with capturing(world_size=1) as recording:
        module, inputs = build(samples)
        module, inputs = module.cuda(), [one.cuda() for one in inputs]
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            with torch.autocast("cuda", torch.bfloat16):
                out = module(*inputs)
            out.float().pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    machine = lookup.cluster("dgx-a100", nodes=1, gpus_per_node=1)
    return float(predict(recording.program(), cluster=machine).step_s)


def resnet_of(samples: int):
    return resnet_50(), (torch.randn(samples, 3, 224, 224),)


def unet_of(samples: int):
    unet = UNet()
    return unet, unet_inputs(unet, samples, 64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "build", "samples"),
    [("resnet-50", resnet_of, 256), ("unet-sd2-512", unet_of, 16)],
)
def test_a_stack_takes_about_as_long_as_its_kernels_one_by_one(name, build, samples):
    layout = {"micro_batch": samples, "shard": "ddp", "optimizer": "sgd", "recompute": "none"}
    run = Run.model_validate(
        {
            "model": str(EXAMPLES / f"{name}.yaml"),
            "cluster": "dgx-a100",
            "gpus": 1,
            "layout": layout,
            "software": {"framework": "pytorch"},
        }
    )
    assert predict(run).step_s == pytest.approx(recorded_s(build, samples), rel=0.1)


@pytest.mark.slow
def test_the_default_device_does_not_matter():
    """On `meta` PyTorch would write attention out, score by score."""
    module, inputs = small_unet()
    with torch.device("meta"):
        on_meta = stack_of_calls(module, *inputs)
    assert on_meta == stack_of_calls(module, *inputs)
