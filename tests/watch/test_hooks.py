"""Unmodified loops are marked where they should be; afterwards PyTorch is as it was."""

import contextlib
import os
import pickle
import time

import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, dataloader

from syncwall.cause import Cause
from syncwall.watch import attach, start, stop, tell
from syncwall.watch.place import FOLDER, NO_AGENT
from syncwall.watch.rings import HIDES_OWN_TIME, NOTES, MarkKind, RingNote, RingReader
from syncwall.watch.speed import window_of
from syncwall.watch.steps import StepMaker

PHASES = {Cause.IDLE_DATA, Cause.FORWARD, Cause.BACKWARD, Cause.OPTIMIZER}


class Watched:
    """A watched test: `steps()` reads what was marked until now."""

    def __init__(self, folder):
        self._folder = folder
        self.maker = StepMaker(0)

    def steps(self):
        (path,) = self._folder.glob("*.ring")
        marks = RingReader(path).read()
        return list(self.maker.take(marks))


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(NO_AGENT, "0")
    monkeypatch.delenv("RANK", raising=False)
    start()
    yield Watched(tmp_path)
    stop()


@pytest.fixture
def process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def loop(model, optimizer, *, steps=4, accumulate=1, after=lambda _: None):
    loader = DataLoader(TensorDataset(torch.ones(2 * steps * accumulate, 8)), batch_size=2)
    for number, (batch,) in enumerate(loader):
        model(batch).square().mean().backward()
        if number % accumulate == accumulate - 1:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            after(number)


def made():
    model = torch.nn.Linear(8, 8)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def test_a_plain_loop(watched):
    loop(*made())
    found = watched.steps()
    assert len(found) == 3  # nobody saw the first one begin
    for step in found:
        assert set(step.seconds) >= PHASES
        assert sum(step.seconds.values()) == pytest.approx(step.step_s, abs=1e-9)
        assert step.loss > 0 < step.gradient_norm
    assert not watched.maker.notes


def test_the_loop_may_tell_more(watched):
    loop(*made(), after=lambda number: tell(tokens=128, loss=float(number)))
    assert [(one.tokens, one.loss) for one in watched.steps()][:2] == [(128, 0.0), (128, 1.0)]


class OwnBatches(torch.nn.Module):
    """Holds a module of its own kind: only the outer one is the model."""

    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner or torch.nn.Linear(8, 8)

    def forward(self, batch):
        return self.inner(batch)


def test_a_loop_that_reads_its_batches_itself_waits_for_data(watched):
    model = OwnBatches(OwnBatches())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    measure = torch.nn.MSELoss()  # no parameter of it is trained
    for number in range(8):
        time.sleep(0.2 if number == 6 else 0.0)
        batch = torch.ones(2, 8)
        found = model(batch)
        measure(found, batch).backward()
        optimizer.step()
    assert "__call__" in vars(OwnBatches)
    pickle.loads(pickle.dumps(model))
    steps = watched.steps()
    assert all(Cause.REST not in one.seconds for one in steps if one.step > 2)
    assert steps[5].seconds[Cause.IDLE_DATA] == pytest.approx(0.2, abs=0.05)
    assert all(one.seconds[Cause.FORWARD] < 0.1 for one in steps)
    stop()
    assert "__call__" not in vars(OwnBatches)


def test_the_model_of_a_parallel_run_is_what_wraps_it(watched, process_group):
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        model(torch.ones(2, 8)).mean().backward()
        optimizer.step()
    assert "__call__" in vars(DistributedDataParallel)
    assert "__call__" not in vars(torch.nn.Linear)


def test_a_synchronous_collective_is_waited_for_once(watched, process_group):
    loop(*made(), after=lambda _: dist.all_reduce(torch.ones(4)))
    for step in watched.steps()[1:]:
        assert step.seconds[Cause.EXPOSED_ALL_REDUCE] > 0
        assert Cause.EXPOSED_OTHER not in step.seconds


def test_accumulation_is_one_step(watched):
    loop(*made(), steps=4, accumulate=3)
    assert len(watched.steps()) == 3


def test_two_optimizers_and_one_that_leads(watched):
    model, first = made()
    second = torch.optim.SGD(model.parameters(), lr=0.1)
    loop(model, first, steps=5, after=lambda _: second.step())
    assert len(watched.steps()) == 4


def test_an_optimizer_that_only_warms_up_leads_no_more(watched):
    model, second = made()
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    loop(model, first, steps=2)
    loop(model, second, steps=20)
    assert len(watched.steps()) >= 11


def test_a_step_that_a_scaler_skips_is_one(watched):
    model, optimizer = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(5):
        loss = model(torch.ones(2, 8)).square().mean()
        scaler.scale(loss * (float("inf") if number == 3 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert [one.skipped for one in watched.steps()] == [False, False, True, False]


def test_checkpoints_and_evaluations(watched, tmp_path):
    model, optimizer = made()

    def after(number):
        if number == 1:
            torch.save(model.state_dict(), tmp_path / "model.pt")
            model.eval()
            time.sleep(0.03)
            model.train()

    loop(model, optimizer, after=after)
    with_it = watched.steps()[1]
    assert with_it.seconds[Cause.EVALUATION] == pytest.approx(0.03, abs=0.02)
    assert with_it.seconds[Cause.CHECKPOINT] > 0
    assert torch.nn.Module.train.__module__ == "torch.nn.modules.module"


def test_a_model_that_nobody_trains_may_be_evaluated(watched):
    teacher = torch.nn.Linear(8, 8)
    loop(*made(), after=lambda _: teacher.eval())
    assert all(Cause.EVALUATION not in one.seconds for one in watched.steps())


def test_ddp_waits_from_its_last_gradient_on(watched, process_group):
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loop(model, optimizer, steps=6)
    found = watched.steps()
    assert [Cause.EXPOSED_DP in one.seconds for one in found] == [False] + [True] * 4
    hooked = [one for one in model.parameters() if one._post_accumulate_grad_hooks]
    assert len(hooked) == 1


def test_calls_of_torch_distributed_are_waits(watched, process_group):
    def after(_):
        dist.barrier()
        dist.all_reduce(torch.ones(2), async_op=True).wait()

    loop(*made(), after=after)
    (first, *_) = watched.steps()
    waits = {Cause.EXPOSED_BARRIER, Cause.EXPOSED_ALL_REDUCE, Cause.EXPOSED_OTHER}
    assert waits <= set(first.seconds)
    assert watched.maker.collectives == 3 * 4  # that a barrier waits for its handle is no other


def test_everything_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(NO_AGENT, "0")

    def places():
        return [
            torch.autograd.backward,
            torch.save,
            dataloader._BaseDataLoaderIter.__next__,
            DataLoader.__iter__,
            torch.amp.GradScaler.step,
            torch.nn.Module.eval,
            torch.nn.Module.train,
            dist.all_reduce,
            dist.distributed_c10d.all_reduce,
            dist.Work.wait,
            DistributedDataParallel.__init__,
            torch.nn.utils.clip_grad_norm_,
        ]

    before = places()
    start()
    changed = places()
    stop()
    assert places() == before
    assert sum(one is not other for one, other in zip(before, changed, strict=True)) == 11


def test_what_a_version_lacks_is_noted_and_the_rest_is_watched(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(NO_AGENT, "0")
    monkeypatch.delattr(dataloader, "_BaseDataLoaderIter")
    monkeypatch.delattr(torch.amp, "GradScaler")
    start()
    try:
        model, optimizer = made()
        for _ in range(3):
            model(torch.ones(2, 8)).square().mean().backward()
            optimizer.step()
        watched = Watched(tmp_path)
        assert len(watched.steps()) == 2
    finally:
        stop()
    assert {NOTES[RingNote(one)][:40] for one in watched.maker.notes} == {
        "this PyTorch has no torch.utils.data.dat",
        "torch.amp.GradScaler is missing: skipped",
    }


def test_without_room_the_training_goes_on(tmp_path, monkeypatch, capfd):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    start()
    try:
        loop(*made())
    finally:
        stop()
    assert "not watched: [Errno 28]" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_children_do_not_write_into_the_ring(watched):
    loop(*made())
    before = len(watched.steps())
    if (pid := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            tell(loss=1.0)
            dist.is_available()
        os._exit(0)
    os.waitpid(pid, 0)
    watched.maker = StepMaker(0)
    assert len(watched.steps()) == before


class DeviceEvent:
    """Of a device that has done everything at once."""

    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, _):
        return 0.0


def test_collectives_on_a_stream_of_their_own_hide_own_time(process_group, watched, tmp_path):
    model, optimizer = made()
    loop(model, optimizer, steps=2)
    now, waits = ["training"], []
    assert attach._watching
    attach._watching.time_on_device(DeviceEvent, lambda: now[0])
    for now[0] in ("training", "FSDP", "training"):
        dist.all_reduce(torch.ones(4))
        (ring,) = tmp_path.glob("*.ring")
        waits.append(sum(one.kind == MarkKind.WAIT_BEGIN for one in RingReader(ring).read()))
    assert waits[0] == waits[1] < waits[2]
    loop(model, optimizer, steps=3)
    found = watched.steps()
    assert watched.maker.notes == {RingNote.DEVICE_COMMUNICATION} <= HIDES_OWN_TIME
    assert [one.own_is_known for one in found[-3:]] == [False] * 3
    assert window_of(found[-3:]).own_s is None  # so that no rank is called a straggler
