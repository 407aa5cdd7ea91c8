"""What stands in for PyTorch while a program is recorded, and that it is gone afterwards."""

import copy
import importlib
import inspect

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._subclasses import FakeTensorMode  # noqa: E402

from syncwall.capture.patching import everywhere, need, replaced  # noqa: E402
from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.capture.shims import TABLES  # noqa: E402
from syncwall.problems import InputError  # noqa: E402

ROWS = [row for table in TABLES for row in table.rows]


def test_no_two_rows_have_the_same_target():
    """Otherwise the order of rows would decide; the owners of two paths may be the same, too."""
    targets = [(id(row.owner), row.name) for row in ROWS]
    assert len(set(targets)) == len(targets)
    functions = [row.original for row in ROWS if row.everywhere]
    assert len(set(functions)) == len(functions)


def test_nothing_is_left_replaced_after_a_recording():
    before = [row.original for row in ROWS]
    with recording(4):
        assert all(row.original is not one for row, one in zip(ROWS, before, strict=True))
    assert [row.original for row in ROWS] == before


def test_a_missing_interface_is_named():
    with pytest.raises(InputError, match=r"has no math\.nothing: recording was written for"):
        need(importlib.import_module("math"), "nothing")


def test_values_and_methods_come_back_as_they_were():
    class Base:
        def method(self):
            return "base"

    class Derived(Base):
        pass

    with replaced(Derived, method=lambda self: "other"):
        assert Derived().method() == "other"
    assert Derived().method() == "base"
    assert "method" not in vars(Derived)


def test_a_function_is_replaced_wherever_it_was_imported():
    original = importlib.import_module("torch.distributed.device_mesh").init_device_mesh

    def instead() -> None: ...

    with everywhere({original: instead}):
        assert torch.distributed.init_device_mesh is instead
        assert torch.distributed.tensor.init_device_mesh is instead
    assert torch.distributed.init_device_mesh is original
    assert torch.distributed.tensor.init_device_mesh is original


def test_fused_kernels_of_cuda_run_on_fake_tensors_of_the_cpu():
    """Attention is recorded through operations that have no kernel on the CPU."""
    with FakeTensorMode():
        x = torch.empty(1, 2, 8, 8, dtype=torch.bfloat16, requires_grad=True)
        out = torch.ops.aten._scaled_dot_product_flash_attention(x, x, x)[0]
        out.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("how", ["default", "context"])
def test_a_default_device_of_cuda_poses(how):
    with recording(2):
        if how == "default":
            torch.set_default_device("cuda")
            try:
                assert torch.nn.Linear(2, 2).weight.is_cuda
            finally:
                torch.set_default_device(None)
        else:
            with torch.device("cuda"):
                assert torch.nn.Linear(2, 2).weight.is_cuda
        assert not torch.zeros(2).is_cuda


def test_objects_come_back_and_nothing_is_saved(tmp_path):
    with recording(4):
        every = [None] * 4
        torch.distributed.all_gather_object(every, {"loss": 1})
        torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "model.pt")
    assert every == [{"loss": 1}] * 4
    assert not list(tmp_path.iterdir())


def test_questions_to_cuda_have_an_answer():
    with recording(16, rank=9):
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 8
        assert torch.cuda.current_device() == 1
        torch.cuda.set_device(1)
        torch.cuda.manual_seed(0)
        assert torch.cuda.memory_allocated() == 0
        assert torch.cuda.get_device_properties(0).total_memory
        assert torch.zeros(2, device="cuda:1").is_cuda
        assert torch.empty(2, device="cuda").normal_().is_cuda
        assert not torch.zeros(2).is_cuda
        with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream()):
            torch.zeros(2).pin_memory().cuda(non_blocking=True)
        assert torch.distributed.get_rank() == 9
        assert torch.distributed.get_world_size() == 16


def test_a_loader_without_workers_keeps_its_other_arguments():
    """By position, too; and the names of its arguments, by which Lightning makes loaders anew."""
    loader = torch.utils.data.DataLoader
    names = list(inspect.signature(loader.__init__).parameters)
    with recording(8):
        made = loader(list(range(96)), 32, False, None, None, 4, timeout=9, prefetch_factor=2)
        assert (made.batch_size, made.num_workers) == (32, 0)
        assert list(inspect.signature(loader.__init__).parameters) == names
        assert [len(batch) for batch in made] == [32, 32, 32]


@pytest.mark.parametrize("value", [0.0, [1.0, 2.0]])
def test_tensors_are_copied_deeply(value):
    with recording(8):
        given = torch.tensor(value, requires_grad=True)
        made = copy.deepcopy([given, given])
        assert made[0] is made[1] is not given
        assert made[0].shape == given.shape
        assert made[0].requires_grad
        assert copy.deepcopy(torch.nn.Linear(4, 4)).weight.shape == (4, 4)


def test_ddp_tells_what_it_logged():
    with recording(8):
        torch.distributed.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        assert model._get_ddp_logging_data() == {}
