"""A hundred scripts that are broken, or do what nobody expects.

`GOOD` are recorded all the same; `RAISED`, `NO_STEP` and `ENDED` give a message. `# here` marks the
line that the message must name.
"""

from dataclasses import dataclass

BEGIN = "import os, sys, time, torch\nfrom torch import nn\n"
MODEL = """\
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x=None):
    loss = model(torch.randn(4, 8) if x is None else x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRAIN = "for _ in range(5):\n    step()\n"


@dataclass(frozen=True)
class Case:
    """A script; `said` is what the message must hold, nothing if it is recorded."""

    text: str
    said: str = ""
    begin: str = BEGIN + MODEL


GOOD = {
    "as it should be": Case(TRAIN),
    "exit with 0": Case(TRAIN + "sys.exit(0)"),
    "catches everything": Case("for _ in range(9):\n    try:\n        step()\n    except:\n        pass"),
    "one step": Case("step()"),
    "exit with 0 after one step": Case("step()\nsys.exit(0)"),
    "prints": Case("print('x' * 100_000)\n" + TRAIN),
    "writes files": Case("open('written.txt', 'w').write('a')\n" + TRAIN),
    "changes its folder": Case("os.chdir('/')\n" + TRAIN),
    "main guard": Case("def main():\n    step(); step()\nif __name__ == '__main__':\n    main()"),
    "pickles its own class": Case("import pickle\nclass A: pass\npickle.loads(pickle.dumps(A()))\n" + TRAIN),
    "thread left running": Case(
        "import threading\nthreading.Thread(target=time.sleep, args=(99,)).start()\n" + TRAIN
    ),
    "daemon thread": Case(
        "import threading\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n" + TRAIN
    ),
    "subprocess left running": Case("import subprocess\nsubprocess.Popen(['sleep', '99'])\n" + TRAIN),
    "fork left running": Case("if not os.fork():\n    time.sleep(99)\n" + TRAIN),
    "fork that ends": Case("if not os.fork():\n    os._exit(0)\n" + TRAIN),
    "raises at exit": Case("import atexit\natexit.register(lambda: 1 / 0)\n" + TRAIN),
    "exits at exit": Case("import atexit\natexit.register(lambda: sys.exit(5))\n" + TRAIN),
    "closes its output": Case("sys.stdout.close()\n" + TRAIN),
    "closes its errors": Case("os.close(2)\n" + TRAIN),
    "ignores signals": Case("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TRAIN),
    "warns": Case("import warnings\nwarnings.warn('careful')\n" + TRAIN),
    "no network needed": Case(
        "import urllib.request\ntry:\n    urllib.request.urlopen('http://example.com', timeout=5)\n"
        "except OSError as error:\n    assert 'no network' in str(error), error\nelse:\n    1 / 0\n" + TRAIN
    ),
    "huge tensor": Case("torch.empty(10**12)\n" + TRAIN),
    "two optimizers": Case(
        "other = torch.optim.AdamW(model.parameters())\nfor _ in range(4):\n    step()\n    "
        "model(torch.randn(2, 8)).sum().backward()\n    other.step()"
    ),
    "changes argv": Case("sys.argv.clear()\n" + TRAIN),
    "item": Case("for _ in range(3):\n    step()\n    print(model.weight.sum().item())"),
    "own environment": Case("assert os.environ['WORLD_SIZE'] == '16'\n" + TRAIN),
    "sets its recursion limit": Case("sys.setrecursionlimit(20_000)\n" + TRAIN),
    "rows of a mask": Case("for _ in range(3):\n    x = torch.randn(9, 8)\n    step(x[x[:, 0] > 0])"),
    "loop over chosen ones": Case(
        "for _ in range(3):\n    for _ in (torch.randn(4) > 0).nonzero():\n        step()"
    ),
    "values of a tensor": Case("step(torch.randn(int(torch.ones(1)), 8))\n" + TRAIN),
    "guards against overflow": Case(
        "for _ in range(3):\n    loss = model(torch.randn(4, 8)).sum()\n"
        "    if torch.isnan(loss) or not torch.isfinite(loss):\n        raise ValueError\n"
        "    loss.backward()\n    optimizer.step()"
    ),
    "saves at once": Case("for _ in range(3):\n    step()\n    torch.save(model.state_dict(), 'a.pt')"),
    "compiled": Case("model = torch.compile(model)\n" + TRAIN),
}
RAISED = {
    "syntax": Case("def f(:  # here", "SyntaxError: invalid syntax"),
    "indentation": Case("if True:\nstep()  # here", "IndentationError: expected an indented block"),
    "tabs": Case("if True:\n        step()\n\tstep()  # here", "TabError"),
    "unclosed": Case("step(  # here", "SyntaxError: '(' was never closed"),
    "import": Case("import no_such_package  # here", "No module named 'no_such_package'"),
    "import of a name": Case("from torch import no_such_name  # here", "cannot import name"),
    "relative import": Case("from . import other  # here", "ImportError: attempted relative"),
    "missing file": Case("open('data.bin')  # here", "No such file or directory: 'data.bin'"),
    "missing checkpoint": Case("torch.load('last.pt')  # here", "No such file or directory"),
    "missing variable": Case("os.environ['MY_CLUSTER']  # here", "KeyError: 'MY_CLUSTER'"),
    "wrong name": Case("stpe()  # here", "NameError: name 'stpe' is not defined"),
    "wrong attribute": Case("model.wieght  # here", "has no attribute 'wieght'"),
    "wrong argument": Case("nn.Linear(8, 8, biass=True)  # here", "unexpected keyword argument"),
    "wrong type": Case("nn.Linear('8', 8)  # here", "TypeError"),
    "wrong index": Case("[][1]  # here", "IndexError: list index out of range"),
    "division": Case("1 / 0  # here", "ZeroDivisionError: division by zero"),
    "assertion": Case("assert model is None, 'no model'  # here", "AssertionError: no model"),
    "empty assertion": Case("assert False  # here", "AssertionError"),
    "own exception": Case("class Bad(Exception): pass\nraise Bad('so bad')  # here", "Bad: so bad"),
    "own base exception": Case("class Bad(BaseException): pass\nraise Bad(1)  # here", "Bad: 1"),
    "group": Case("raise ExceptionGroup('many', [ValueError(1)])  # here", "ExceptionGroup: many"),
    "exception without words": Case(
        "class Odd(Exception):\n    def __str__(self):\n        return 5\nraise Odd  # here", "Odd"
    ),
    "chained": Case(
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('a') from error  # here",
        "ValueError: a",
    ),
    "while tidying up": Case(
        "try:\n    1 / 0\nfinally:\n    open('gone')  # here",
        "train.py:11:5  ZeroDivisionError",
    ),
    "interrupt": Case("raise KeyboardInterrupt  # here", "KeyboardInterrupt"),
    "generator exit": Case("raise GeneratorExit  # here", "GeneratorExit"),
    "not implemented": Case("raise NotImplementedError('later')  # here", "later"),
    "stop iteration": Case("next(iter(()))  # here", "StopIteration"),
    "exit with 1": Case("sys.exit(1)  # here", "ended itself: sys.exit(1)"),
    "exit with 3": Case("step()\nsys.exit(3)  # here", "ended itself: sys.exit(3)"),
    "exit with words": Case("sys.exit('no data')  # here", "sys.exit('no data')"),
    "arguments": Case(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\n"
        "parser.parse_args()  # here",
        "sys.exit(2)",
    ),
    "standard input": Case("input('name? ')  # here", "EOFError"),
    "warnings as errors": Case(
        "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('careful')  # here",
        "UserWarning: careful",
    ),
    "recursion": Case("def f():\n    f()  # here\nf()", "RecursionError"),
    "memory": Case("bytearray(1 << 40)  # here", "MemoryError"),
    "memory in steps": Case(
        "a = []\nwhile True:\n    a.append(bytes(1 << 28))  # here",
        "MemoryError",
    ),
    "socket": Case("import socket\nsocket.create_connection(('10.0.0.1', 80))  # here", "has no network"),
    "name service": Case(
        "import socket\nsocket.getaddrinfo('example.com', 80)  # here",
        "no network",
    ),
    "download": Case(
        "import urllib.request\nurllib.request.urlopen('http://example.com')  # here", "no network"
    ),
    "subprocess fails": Case(
        "import subprocess\nsubprocess.run(['false'], check=True)  # here", "returned non-zero exit"
    ),
    "no such program": Case(
        "import subprocess\nsubprocess.run(['nvidia-smi-2'])  # here",
        "No such file",
    ),
    "shapes": Case(
        "torch.randn(2, 3) @ torch.randn(4, 5)  # here",
        "same reduction dim, but got [2, 3] X [4, 5]",
    ),
    "shape of a model": Case("step(torch.randn(4, 9))\n", "[4, 9] X [8, 8]"),
    "broadcast": Case("torch.randn(3) + torch.randn(4)  # here", "broadcast"),
    "view": Case("torch.randn(6).view(4)  # here", "RuntimeError: shape '[4]' is invalid"),
    "cat": Case("torch.cat([torch.randn(2, 3), torch.randn(2, 3, 4)])  # here", "RuntimeError"),
    "integers need no gradients": Case(
        "torch.ones(2, dtype=torch.int64).requires_grad_()  # here", "floating point"
    ),
    "index": Case("torch.randn(4)[:, 0]  # here", "IndexError: too many indices"),
    "embedding of floats": Case("nn.Embedding(4, 4)(torch.randn(3))  # here", "Expected tensor"),
    "backward twice": Case(
        "loss = model(torch.randn(4, 8)).pow(2).sum()\nloss.backward()\nloss.backward()  # here",
        "second time",
    ),
    "backward of a vector": Case("model(torch.randn(4, 8)).backward()  # here", "scalar outputs"),
    "backward without gradients": Case("torch.ones(1).backward()  # here", "does not require grad"),
    "leaf changed in place": Case("model.weight.add_(1)  # here", "in-place operation"),
    "hook": Case(
        "def hook(*_):\n    raise ValueError('in a hook')  # here\nmodel.register_forward_hook(hook)\nstep()",
        "in a hook",
    ),
    "backward hook": Case(
        "def hook(*_):\n    raise ValueError('in a hook')  # here\nmodel.weight.register_hook(hook)\nstep()",
        "in a hook",
    ),
    "own function": Case(
        "class Bad(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        return x * 2\n    @staticmethod\n    def backward(ctx, g):\n        return g @ g"
        "  # here\nstep(Bad.apply(model.weight[:4]))",
        "",
    ),
    "optimizer raises": Case(
        "def step_(self, closure=None):\n    raise ValueError('no step')  # here\n"
        "torch.optim.SGD.step = step_\nstep()",
        "no step",
    ),
    "optimizer of nothing": Case("torch.optim.SGD([], lr=1)  # here", "empty parameter list"),
    "wrong rate": Case(
        "torch.optim.SGD(model.parameters(), lr=-1)  # here",
        "Invalid learning rate",
    ),
    "data-dependent condition": Case(
        "if torch.randn(3).sum() > 0:  # here?\n    pass\n" + "raise ValueError('after')",
        "",
    ),
    "group of strangers": Case(
        "import torch.distributed as dist\ndist.init_process_group('nccl')\ndist.new_group([0, 99])  # here",
        "99",
    ),
    "mesh too large": Case(
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "init_device_mesh('cuda', (7, 5))  # here",
        "",
    ),
    "state of another model": Case(
        "model.load_state_dict({'other': torch.ones(2)})  # here", "Missing key(s)"
    ),
    "starts more ranks": Case(
        "import torch.multiprocessing as mp\nmp.spawn(step, nprocs=2)  # here", "--nproc-per-node 2"
    ),
    "another world": Case(
        "torch.distributed.init_process_group('nccl', world_size=32, rank=0)  # here", "--world 32"
    ),
    "own extension": Case(
        "from torch.utils.cpp_extension import load_inline\nload_inline('ext', 'this is no C++;')  # here",
        "",
    ),
    "triton": Case("import triton_kernels_of_mine  # here", "No module named"),
    "unknown operation": Case("torch.ops.mine.kernel(torch.ones(2))  # here", "mine"),
    "numpy of a tensor": Case("torch.randn(3).numpy().no_such()  # here", ""),
}
NO_STEP = {
    "empty": Case("", "0 optimizer steps"),
    "nothing at all": Case("", "0 optimizer steps", begin=""),
    "no optimizer": Case("model(torch.randn(4, 8)).sum().backward()", "0 optimizer steps"),
    "optimizer never stepped": Case("model(torch.randn(4, 8))", "0 optimizer steps"),
    "inference": Case("with torch.no_grad():\n    model(torch.randn(4, 8))", "0 optimizer steps"),
    "own update": Case(
        "for _ in range(3):\n    model(torch.randn(4, 8)).sum().backward()\n"
        "    with torch.no_grad():\n"
        "        model.weight -= model.weight.grad",
        "0 optimizer steps",
    ),
}
ENDED = {
    "leaves at once": Case("os._exit(0)", "ended itself with code 0"),
    "leaves with 7": Case("os._exit(7)", "ended itself with code 7"),
    "kills itself": Case("os.kill(os.getpid(), 9)", "ended by SIGKILL"),
    "aborts": Case("os.abort()  # here", "ended by SIGABRT"),
    "crashes": Case("import ctypes\nctypes.string_at(0)  # here", "ended by SIGSEGV"),
    "endless loop": Case("while True:\n    pass  # here?", "still runs here after 3 s of CPU time"),
    "endless loop that catches": Case(
        "while True:\n    try:\n        sum(range(999))\n    except BaseException:\n        pass",
        "still runs here after 3 s of CPU time",
    ),
    "sleeps": Case("time.sleep(10**6)  # here", "still runs here after 4 s"),
    "waits for itself": Case("import threading\nthreading.Event().wait()  # here", "still runs here"),
}
