"""What training scripts do that data or a device would be needed for: none of it is silently wrong."""
# ruff: noqa: E402 - what follows needs torch

from itertools import count

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import numpy as np
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from syncwall.answer.prediction import predict
from syncwall.capture.collectives import group_description
from syncwall.capture.places import data_ranks
from syncwall.capture.recorder import recording
from syncwall.capture.script import Script, record_script
from syncwall.capture.tape import Tape
from syncwall.cause import Cause
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from syncwall.problems import InputError
from syncwall.work.operations import Convolution, Gemm
from syncwall.work.program import unknown_share

pytestmark = pytest.mark.slow
EXPERTS, CHOSEN, WIDTH, HIDDEN, TOKENS = 8, 2, 64, 128, 4096


def recorded(build, step, world_size=8, steps=2):
    """A program of which `build` makes the model, and `step` a loss of it."""
    with recording(world_size) as found:
        model = build()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(steps):
            step(model).backward()
            optimizer.step()
            optimizer.zero_grad()
    return found.program()


def gemms(program):
    return [call.what for call in program.ranks[0] if isinstance(call.what, Gemm)]


def linear():
    return nn.Linear(WIDTH, WIDTH, device="cuda")


def test_torch_accelerator_is_there():
    with recording(16, rank=9):
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (8, 1)
        torch.accelerator.set_device_index(1)
        with torch.accelerator.device_index(0):
            torch.accelerator.synchronize()
        assert not torch.accelerator.current_stream().is_capturing()


@pytest.mark.parametrize("device", [3, "cuda:3", {"device": 3}])
def test_modules_move_to_a_number(device):
    with recording(8):
        model = nn.Linear(4, 4)
        moved = model.to(**device) if isinstance(device, dict) else model.to(device)
        assert moved.weight.is_cuda


def test_single_values_are_formatted():
    with recording(1):
        assert f"{torch.randn((), device='cuda') * 3:.2f}" == "1.00"
        assert f"{torch.ones((), device='cuda') * 3:.2f}" == "3.00"
        assert f"{torch.tensor(2):d}" == "2"


def test_a_batch_that_is_cut_out_at_random_places_is_whole():
    """As nanoGPT does: indices are drawn on the host, and cut numpy arrays."""
    data, length = np.arange(10_000, dtype=np.uint16), 32

    def loss(model):
        places = torch.randint(len(data) - length, (12,))
        rows = [torch.from_numpy(data[at : at + length].astype(np.float32)) for at in places]
        batch = torch.stack(rows).pin_memory().to("cuda", non_blocking=True)
        assert batch.shape == (12, length)
        return model(batch).sum()

    program = recorded(lambda: nn.Linear(length, WIDTH, device="cuda"), loss)
    assert [(one.m, one.n, one.k) for one in gemms(program)][:1] == [(12, WIDTH, length)]
    assert program.samples == 12 * 8
    assert not program.notes


def test_an_empty_batch_is_refused_and_said():
    def loss(model):
        size = int(torch.ones((), device="cuda").item()) - 1
        return model(torch.randn(size, WIDTH, device="cuda")).sum()

    with pytest.raises(InputError, match=r"Linear was called with an empty batch of shape \(0, 64\)"):
        recorded(linear, loss)


def test_a_script_that_multiplies_nothing_is_refused(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "weight = torch.nn.Parameter(torch.ones(8, device='cuda'))\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for _ in range(4):\n"
        "    (weight * 2).sum().backward()\n"
        "    optimizer.step()\n"
    )
    with pytest.raises(InputError, match="multiplies nothing"):
        record_script(Script(str(script)), world_size=8)


def test_samples_are_those_of_the_model_that_is_trained():
    """Not of its loss, a frozen encoder, an evaluation, or its second call; micro batches add up."""

    beside: dict[str, nn.Module] = {"loss": nn.CrossEntropyLoss()}

    def build():
        beside["encoder"] = linear().requires_grad_(False)
        return linear()

    def step(model):
        for micro in range(3):
            batch = torch.randn(10, WIDTH, device="cuda")
            with torch.no_grad():
                model(batch)
            seen = model(beside["encoder"](batch)) + model(batch)
            found = beside["loss"](seen, torch.randint(WIDTH, (10,), device="cuda"))
            if micro < 2:
                found.backward()
        return found

    assert recorded(build, step).samples == 3 * 10 * 8


def test_ranks_of_a_mesh_without_names_share_their_samples():
    """Megatron's split of an MLP with DTensor, as PyTorch's example has it."""

    def build():
        model = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH)).to("cuda")
        mesh = init_device_mesh("cuda", (8,))
        return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    program = recorded(build, lambda model: model(torch.randn(10, WIDTH, device="cuda")).sum())
    assert data_ranks(program.ranks[0], 8) == 1.0
    assert program.samples == 10


def test_a_metric_over_all_ranks_is_no_tensor_parallelism():
    def step(model):
        found = model(torch.randn(10, WIDTH, device="cuda")).sum()
        dist.all_reduce(found.detach().clone())
        return found

    program = recorded(lambda: DistributedDataParallel(linear()), step)
    assert program.samples == 10 * 8


@pytest.mark.parametrize("allowed", [False, True])
def test_fp32_is_multiplied_as_the_switches_say(allowed):
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        program = recorded(linear, lambda model: model(torch.randn(10, WIDTH, device="cuda")).sum())
        image = recorded(
            lambda: nn.Conv2d(3, 32, 3, device="cuda"),
            lambda model: model(torch.randn(4, 3, 32, 32, device="cuda")).sum(),
        )
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    expected = Dtype.TF32 if allowed else Dtype.FP32
    assert {one.dtype for one in gemms(program)} == {expected}
    convolutions = [call.what for call in image.ranks[0] if isinstance(call.what, Convolution)]
    assert {one.dtype for one in convolutions} == {expected}
    for cluster in ("dgx-a100", "jean-zay-v100"):  # Volta has no TF32
        assert predict(program, cluster=lookup.cluster(cluster)).step_s > 0


def test_batched_products_are_one_kernel():
    """1,728 products of 128 x 64 x 128 on an A100: FLOPs and bytes allow about 0.1 ms."""

    def step(model):
        left = torch.randn(1728, 128, 64, device="cuda", dtype=torch.bfloat16)
        right = torch.randn(1728, 64, 128, device="cuda", dtype=torch.bfloat16)
        return model(torch.randn(10, WIDTH, device="cuda")).sum() + (left @ right).sum()

    (batched,) = [one for one in gemms(recorded(linear, step, world_size=1)) if one.count > 1]
    assert batched.is_batched
    program = recorded(linear, step, world_size=1)
    found = predict(program, cluster=lookup.cluster("dgx-a100"))
    assert found.ledger[Cause.GEMM] < 0.5e-3


class Routed(nn.Module):  # type: ignore[misc]
    """Experts in a loop, each with the tokens that chose it."""

    def __init__(self, pick):
        super().__init__()
        self.pick = pick
        self.gate = nn.Linear(WIDTH, EXPERTS, device="cuda")
        self.experts = nn.ModuleList(nn.Linear(WIDTH, HIDDEN, device="cuda") for _ in range(EXPERTS))

    def forward(self, tokens):
        weights, chosen = torch.topk(self.gate(tokens).softmax(-1), CHOSEN, dim=-1)
        out = tokens.new_zeros(TOKENS, HIDDEN)
        for number, expert in enumerate(self.experts):
            of, place = self.pick(chosen, number)
            out = out.index_add(0, of, expert(tokens[of]) * weights[of, place, None])
        return out


def _of_one_hot(chosen, number):
    mask = functional.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
    place, of = torch.where(mask[number])
    return of, place


def _of_comparison(chosen, number):
    return torch.where(chosen == number)


@pytest.mark.parametrize("pick", [_of_one_hot, _of_comparison])
def test_experts_get_their_share_of_the_tokens(pick):
    program = recorded(
        lambda: Routed(pick), lambda model: model(torch.randn(TOKENS, WIDTH, device="cuda")).sum()
    )
    rows = [one.m for one in gemms(program) if (one.n, one.k) == (HIDDEN, WIDTH)]
    assert rows == [TOKENS * CHOSEN / EXPERTS] * EXPERTS
    assert any("routing, taken to be even" in note.what for note in program.notes)
    assert unknown_share(program) < 0.05


def test_counts_of_routed_tokens_are_even_too():
    with recording(1):
        chosen = torch.topk(torch.randn(TOKENS, EXPERTS, device="cuda"), CHOSEN)[1]
        hit = chosen.new_zeros((TOKENS, EXPERTS)).scatter_(1, chosen, 1)
        assert hit.sum(dim=0).cpu().numpy().tolist() == [TOKENS * CHOSEN // EXPERTS] * EXPERTS
        assert torch.bincount(chosen.flatten(), minlength=EXPERTS).tolist()[:1] == [
            TOKENS * CHOSEN // EXPERTS
        ]


def test_what_follows_from_a_made_up_size_is_not_known():
    def step(model):
        tokens = torch.randn(TOKENS, WIDTH, device="cuda")
        return model(tokens[torch.where(tokens.sum(-1) > 0)[0]]).sum()

    assert unknown_share(recorded(linear, step)) > 0.9


def test_a_loop_until_data_ends_it_runs_to_its_bound_and_is_not_known():
    """As `generate` of transformers asks whether all answers have ended."""

    def step(model):
        tokens = torch.randn(TOKENS, WIDTH, device="cuda")
        unfinished = torch.ones(TOKENS, dtype=torch.int64, device="cuda")
        for number in count():
            tokens = model(tokens)
            is_last = torch.full((TOKENS,), number == 3, device="cuda")
            unfinished = unfinished & ~((tokens.sum(-1) > 0) | is_last)
            if unfinished.max() == 0:
                break
        return tokens.sum()

    program = recorded(linear, step)
    products = len(gemms(program))
    assert products == len(gemms(recorded(linear, lambda model: repeated(model, 4))))
    assert 0.2 < unknown_share(program) < 0.9
    assert any("loop" in note.what for note in program.notes)


def repeated(model, times):
    tokens = torch.randn(TOKENS, WIDTH, device="cuda")
    for _ in range(times):
        assert not tokens.isnan().any()
        assert tokens.isfinite().all()
        tokens = model(tokens)
    return tokens.sum()


def test_values_that_are_asked_to_be_finite_are():
    assert unknown_share(recorded(linear, lambda model: repeated(model, 4))) == 0


def test_of_a_program_with_one_step_that_one_is_taken():
    """Without what makes the model; states of the optimizer are in it, and a note says so."""

    def step(model):
        return model(torch.randn(10, WIDTH, device="cuda")).sum()

    once, twice = recorded(linear, step, steps=1), recorded(linear, step)
    assert gemms(once) == gemms(twice)
    assert (once.samples, once.tokens) == (twice.samples, twice.tokens)
    assert [note.what for note in once.notes if note.what.startswith("a second step")]
    assert not twice.notes


def test_evaluation_before_the_first_step_is_cut_short_and_leaves_no_memory():
    calls = 0

    class Counting(nn.Linear):  # type: ignore[misc]
        def forward(self, given):
            nonlocal calls
            calls += 1
            return super().forward(given)

    def build():
        model = Counting(WIDTH, WIDTH, device="cuda")
        with torch.no_grad():
            for _ in range(300):
                model(torch.randn(TOKENS, WIDTH, device="cuda")).mean().item()
        return model

    def step(model):
        with torch.no_grad():
            for _ in range(10):  # within a step everything counts
                model(torch.randn(8, WIDTH, device="cuda"))
        return model(torch.randn(8, WIDTH, device="cuda")).sum()

    program, plain = recorded(build, step), recorded(linear, step)
    assert calls < 20 + 10
    assert program.ranks[0].held == plain.ranks[0].held
    assert gemms(program) == gemms(plain)


def test_of_ranks_that_a_program_spawns_the_one_to_be_recorded_runs():
    """As pytorch/examples' imagenet does: its launcher is no torchrun."""
    ranks = []

    def train(rank, width):
        dist.init_process_group("nccl", world_size=16, rank=8 + rank)
        ranks.append(rank)
        model = DistributedDataParallel(nn.Linear(width, width, device="cuda"))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(4, width, device="cuda")).sum().backward()
            optimizer.step()

    with recording(16, rank=11) as found:
        torch.multiprocessing.spawn(train, nprocs=8, args=(WIDTH,))
    assert (ranks, found.program().samples) == ([3], 64)


def test_a_cuda_graph_is_recorded_once_and_never_replayed_as_nothing():
    def step(model):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle(), stream=torch.cuda.Stream()):
            loss = model(torch.randn(8, WIDTH, device="cuda")).sum()
        graph.replay()
        return loss

    assert gemms(recorded(linear, step)) == gemms(
        recorded(linear, lambda model: model(torch.randn(8, WIDTH, device="cuda")).sum())
    )
    with recording(1):
        graph = torch.cuda.CUDAGraph()
        graph.replay()
        with pytest.raises(RuntimeError, match="turn CUDA graphs off"):
            graph.replay()


def test_a_row_that_attention_takes_as_one_sequence_is_of_tokens():
    """As torchtitan packs them: there is no dimension of samples."""

    class Packed(nn.Embedding):  # type: ignore[misc]
        def forward(self, tokens):
            x = super().forward(tokens).view(1, 1, len(tokens), WIDTH).bfloat16()
            return functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    def step(model):
        return (
            model(torch.randint(0, 100, (512,), device="cuda")).sum()
            * model.weight.mm(model.weight.t()).sum()
        )

    program = recorded(lambda: Packed(100, WIDTH, device="cuda"), step)
    assert (program.samples, program.tokens) == (8, 8 * 512)


def test_a_generator_of_the_device_takes_the_state_that_ranks_agree_on():
    """As accelerate does before each epoch."""
    with recording(8):
        generator = torch.Generator(device="cuda")
        state = generator.get_state().to("cuda")
        dist.broadcast(state, 0)
        generator.set_state(state.cpu())
        torch.set_rng_state(state.cpu())
        assert isinstance(torch.default_generator, torch.Generator)
        assert torch.randperm(4, generator=generator).tolist() != [0, 0, 0, 0]


def test_streams_are_noted_in_hooks_of_the_backward_pass():
    """As DeepSpeed's ZeRO does."""

    def build():
        model = linear()
        stream = torch.cuda.Stream()
        model.weight.register_post_accumulate_grad_hook(lambda one: one.grad.record_stream(stream))
        return model

    recorded(build, lambda model: model(torch.randn(8, WIDTH, device="cuda")).sum())


def test_what_is_loaded_to_the_device_is_there(tmp_path):
    torch.save({"rows": torch.ones(4, 3)}, tmp_path / "rows.pt")
    with recording(1):
        rows = torch.load(tmp_path / "rows.pt", map_location="cuda")["rows"]
        assert rows.is_cuda
        assert rows[torch.zeros(2, dtype=torch.int64, device="cuda")].shape == (2, 3)


def test_a_storage_becomes_a_tensor_of_the_host():
    with recording(1):
        storage = torch.UntypedStorage(12)
        assert torch.asarray(storage, dtype=torch.uint8).view(torch.float32).shape == (3,)


def test_meshes_of_lightning_name_their_dimensions_in_full():
    with recording(4):
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data_parallel", "tensor_parallel"))
        groups = [mesh.get_group(one) for one in mesh.mesh_dim_names]
        names = {str(group.group_name): name for group, name in zip(groups, mesh.mesh_dim_names, strict=True)}
        assert [group_description(one, Tape(), names).axis for one in groups] == ["shard", "tp"]


def test_no_rank_finds_an_overflow():
    """As DeepSpeed asks before each step."""
    with recording(8):
        found = torch.zeros([1], device="cuda")
        for gradient in torch.randn(4, 8, device="cuda"):
            is_finite = torch.isfinite(gradient.amax()).logical_and(torch.isfinite(gradient.amin()))
            found += is_finite.logical_not()
        found = found.bool().byte().to("cuda")
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        assert not found[0].item()


def test_numbers_of_the_host_are_known_where_a_sum_needs_them():
    with recording(1):
        rate = torch.tensor(0.0, device="cpu")
        rate.fill_(0.25)
        weight = torch.randn(4, device="cuda")
        weight.add_(weight, alpha=-rate)
        assert rate.item() == 0.25


def test_values_of_inference_are_made_up_too():
    with recording(1), torch.inference_mode():
        values = torch.randn(4, device="cuda")
        assert values.sum().item() == 1.0
        assert not bool(values.sum() > 0)


def test_a_list_of_numbers_of_the_device_becomes_a_tensor():
    """As torchtune scales the frequencies of its positions."""
    with recording(1):
        numbers = list(torch.randn(4, device="cuda"))
        assert torch.tensor(numbers, device="cuda").shape == (4,)


def test_all_of_a_mask_is_usually_true_however_it_is_asked():
    """As transformers decides whether attention is causal: `mask.all()`, or faster by a sum."""
    with recording(1):
        mask = torch.randn(4, 8, device="cuda") > 0
        assert bool(mask.all())
        assert bool(mask.sum() == mask.numel())
        assert not bool(mask.sum() == 0)
        assert int((mask.sum() / 5).ceil().to(torch.int64) * 5) == 35


def test_sums_and_quotients_that_are_scaled_or_rounded_are_not_known():
    with recording(1):
        two = torch.full((4,), 2, device="cuda")
        assert torch.add(two, two).max().item() == 4
        assert torch.add(two, two, alpha=3).max().item() == 1  # a placeholder
        assert torch.div(two, 3, rounding_mode="floor").max().item() == 1
