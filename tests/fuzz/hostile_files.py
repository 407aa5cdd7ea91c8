"""Files of at most 1 MB that are made to cost time and memory, each with the call that reads it.

Holds `HostileFile`, `repeated` (the beginning of every kind of file, then one token up to the end)
and `measured`, which reads one in a child process. Those made by hand are in `hostile_cases`.
"""

import itertools
import os
import random
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 1_000_000
EXPLAIN: Final = ("explain",)
RUN: Final = ("predict",)
SETTINGS: Final = ("predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8", "--from")
REPORT: Final = ("report",)
SAMPLE: Final = 1000
"""Pairs that are read, in about six minutes."""
_KILLED_S: Final = 40
_KILLED_BYTES: Final = 3 << 30


@dataclass(frozen=True)
class HostileFile:
    """One file and the words of the call before its name."""

    name: str
    raw: bytes
    words: tuple[str, ...] = EXPLAIN
    file: str = "input_rank0"


@dataclass(frozen=True)
class Cost:
    """What one call took, and how it ended."""

    cpu_s: float
    peak_bytes: int
    code: int
    """Exit code; negative for a signal."""
    said: str

    @property
    def is_bad(self) -> bool:
        """True beyond what any file may cost, or if it ended in anything but words."""
        dear = self.cpu_s > 10.0 or self.peak_bytes > 500e6 or len(self.said) > 100_000
        return dear or self.code not in (0, 1, 2, 3) or "Traceback" in self.said


def measured(case: HostileFile, run: Callable[[list[str]], int]) -> Cost:
    """`run` the words of `case` in a child of this process."""
    with tempfile.TemporaryDirectory() as directory:
        path, said = Path(directory, case.file), Path(directory, "said")
        path.write_bytes(case.raw)
        child = os.fork()
        if not child:
            _ended(run, [*case.words, str(path)], said)
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        text = said.read_text(errors="replace")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, code, text)


def _ended(run: Callable[[list[str]], int], words: list[str], said: Path) -> None:
    """The life of the child."""
    resource.setrlimit(resource.RLIMIT_CPU, (_KILLED_S, _KILLED_S))
    resource.setrlimit(resource.RLIMIT_DATA, (_KILLED_BYTES, _KILLED_BYTES))
    code = 70
    try:
        with said.open("w") as stream:
            sys.stdout = sys.stderr = stream
            try:
                code = run(words)
            except SystemExit as error:
                code = int(error.code or 0)
            except BaseException:  # noqa: BLE001 - what this looks for
                traceback.print_exc()
    finally:
        os._exit(code)


TOKENS: Final = (
    "\n",
    " ",
    "\t",
    "\r",
    ",",
    "-",
    "--- ",
    "0",
    "9",
    "a",
    "a.",
    "a: ",
    "- ",
    "&a ",
    "*a ",
    "? ",
    "? - ",
    "{",
    "[",
    "[[",
    "(",
    "|",
    "'|",
    '"',
    "'",
    '"a"',
    "$a",
    "${a-",
    "a=",
    "--a ",
    "--a.b ",
    "<a>",
    "<a ",
    "&amp;",
    "\x1b[",
    "\x1b[0;",
    "** ",
    "Error ",
    "NVRM: Xid (PCI:0): 79 ",
    "Rank 1] WorkNCCL(",
    "CUDA out of memory. Tried to allocate 1 GiB",
    "| a | Fail ",
    "CA 'a' State: Down ",
    "** a(b):\n",
    "optype ",
    "dp_rank,",
    "optype,",
    '"traceEvents":',
    '"schema":"',
    '"pg_config":',
    '"ph":',
    '{"ph":',
    '{"ph":"X",',
    "#",
    "# ",
    "# nThread ",
    "GPU0 ",
    "GPU1 X ",
    "GPU0\tX\n",
    "NIC0: ",
    "Switch ",
    'Switch 1 "a" ',
    '[1] "a"[1] ',
    "Ca\t",
    "NCCL ",
    "NCCL INFO ",
    "h:1:2 [0] NCCL INFO ",
    "Using network ",
    "NET/IB : Using ",
    "[0]a:1/IB ",
    "multimem",
    "[pl]",
    "MT1",
    "Time (%),",
    "1,",
    'x="""',
    "a = 1\n",
    "[a]\n",
    "[[a]]\n",
    "- a\n",
    "a:\n",
    "é",
    "\x00",
    "\ufeff",
    "%",
    "!!a ",
    "!a ",
)

HEADS: Final = (
    ("text", "", EXPLAIN, "input_rank0"),
    ("trace", '{"traceEvents":[{"ph":"X","cat":"kernel","name":"', EXPLAIN, "rank0.json"),
    (
        "trace-args",
        '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":1,"ts":1,'
        '"dur":1,"args":{"stream":7,"correlation":',
        EXPLAIN,
        "rank0.json",
    ),
    ("trace-before", '{"schemaVersion":1,"traceEvents"', EXPLAIN, "rank0.json"),
    ("execution", '{"schema":"1.0.2-chakra.0.0.4","nodes":[', EXPLAIN, "rank0.json"),
    (
        "operations",
        "dp_rank,stage,rank,step,seq_id,mc,mb_id,gmc,optype,start_ts,duration\n",
        EXPLAIN,
        "table.csv",
    ),
    ("nccl log", "h:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO ", EXPLAIN, "nccl.log"),
    ("nccl-tests", "# nThread 1 nGpus 1\n#\n", EXPLAIN, "tests.txt"),
    ("nccl-tests json", '{"nccl-tests":', EXPLAIN, "tests.json"),
    ("flight", '{"pg_config":{},"entries":[', EXPLAIN, "dump_0"),
    ("topology", '<system><cpu numaid="0" affinity="', EXPLAIN, "topo.xml"),
    ("hwloc", '<topology><object type="Machine">', EXPLAIN, "topo.xml"),
    ("graph", '<graphs><graph id="', EXPLAIN, "graph.xml"),
    ("smi", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV18\t0-1\nGPU1\tNV18\tX\t", EXPLAIN, "smi.txt"),
    ("ibnetdiscover", 'vendid=0x2c9\nSwitch\t40 "S-1"\t# "a"\n', EXPLAIN, "ib.txt"),
    ("netq", '[{"compounded_links":', EXPLAIN, "netq.json"),
    ("topograph", "switches:\n  core:\n    switches: ", EXPLAIN, "model.yaml"),
    ("nsys", "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n", EXPLAIN, "nsys.csv"),
    (
        "nsys text",
        " ** CUDA API Summary (cuda_api_sum):\n\n Time (%)\n --- --- --- ---\n",
        EXPLAIN,
        "nsys.txt",
    ),
    ("measured", '{"syncwall":"0.1","kind":"links","data":', EXPLAIN, "links.json"),
    ("pickle", "\x80\x02", EXPLAIN, "dump_0"),
    ("failure log", "RuntimeError: a\nCUDA out of memory. Tried to allocate ", EXPLAIN, "job.log"),
    ("kernel log", "[1.0] NVRM: Xid (PCI:0000:18:00): 79, pid=1, a\n", EXPLAIN, "dmesg"),
    ("dcgmi", "| Diagnostic | Result |\n", EXPLAIN, "diag.txt"),
    ("ibstat", "CA 'mlx5_0'\n", EXPLAIN, "ibstat.txt"),
    ("run", "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: ", RUN, "run.yaml"),
    ("run layout", "model: llama-3.1-8b\ncluster: dgx-h100\nlayout: {", RUN, "run.yaml"),
    ("run json", '{"model":', RUN, "run.json"),
    ("torchtitan", "[training]\nseq_len = ", SETTINGS, "settings.toml"),
    ("toml", "", SETTINGS, "settings.toml"),
    ("megatron", "--tensor-model-parallel-size ", SETTINGS, "settings.sh"),
    ("arguments", "--a '", SETTINGS, "settings"),
    ("settings", "", SETTINGS, "settings"),
    ("deepspeed", '{"zero_optimization":', SETTINGS, "settings.json"),
    ("accelerate", "distributed_type: ", SETTINGS, "settings.yaml"),
    ("report", '{"syncwall":"0.1","kind":"links","job":', REPORT, "links.json"),
)


def repeated(count: int = SAMPLE) -> Iterator[HostileFile]:
    """`count` of all pairs of a head and a token, the same ones every time."""
    pairs = list(itertools.product(HEADS, TOKENS))
    for (kind, head, words, file), token in random.Random(0).sample(pairs, min(count, len(pairs))):
        begins, unit = head.encode("latin-1"), token.encode()
        raw = begins + unit * ((MOST_BYTES - len(begins)) // len(unit))
        yield HostileFile(f"{kind} {token!r}", raw, words, file)
