"""What collective a name stands for: of a kernel, of a call, of a recorded operation.

Holds `is_communication`, `collective_kind`, `dtype_bytes` and `HOST_CALLS`.
"""

import re

_KINDS = (
    (re.compile(r"all_?to_?all|deep_?ep|internode::|intranode::", re.IGNORECASE), "all-to-all"),
    (re.compile(r"reduce_?scatter|cross_device_reduce_scatter", re.IGNORECASE), "reduce-scatter"),
    (re.compile(r"all_?reduce|cross_device_reduce|multimem.*reduce", re.IGNORECASE), "all-reduce"),
    (re.compile(r"all_?gather|allgather", re.IGNORECASE), "all-gather"),
    (
        re.compile(r"send_?recv|(^|[^a-z])(i?send|i?recv)([^a-z]|$)|send_receive", re.IGNORECASE),
        "send-receive",
    ),
    (re.compile(r"broadcast", re.IGNORECASE), "broadcast"),
    (re.compile(r"barrier", re.IGNORECASE), "barrier"),
)
_COMMUNICATION = re.compile(
    r"^(?:void )?(?:nccl|rccl|msccl|mscclpp)|nccl(?:Dev)?Kernel|nvshmem|deep_ep|cross_device_reduce"
    r"|^(?:gloo|nccl|mpi|ucc|c10d|xccl|hccl):|oneccl|one_?shot_all_?reduce|two_?shot_all_?reduce"
    r"|ep::int(?:er|ra)node::"
    r"|multimem_all|symm_mem|all_?gather_into|ub_?comm|userbuffers_",
    re.IGNORECASE,
)
HOST_CALLS = ("gloo:", "mpi:", "ucc:")
"""How annotations begin that last as long as a collective on the host does."""
_BYTES = {
    "double": 8,
    "long": 8,
    "float64": 8,
    "int64": 8,
    "complexfloat": 8,
    "float": 4,
    "int": 4,
    "float32": 4,
    "int32": 4,
    "half": 2,
    "bfloat16": 2,
    "short": 2,
    "float16": 2,
    "int16": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
    "uint8": 1,
    "int8": 1,
}


def is_communication(name: str) -> bool:
    """Whether a kernel or a call of this name moves data between ranks."""
    return _COMMUNICATION.search(name) is not None


def collective_kind(name: str) -> str:
    """One of `Collective.kind`."""
    for pattern, kind in _KINDS:
        if pattern.search(name):
            return kind
    return "other"


def dtype_bytes(name: str) -> int | None:
    """Bytes of an element of a type as PyTorch names it ("Float", "c10::BFloat16"), if known."""
    plain = name.lower().removeprefix("c10::").removeprefix("torch.")
    if plain.startswith("float8"):
        return 1
    return _BYTES.get(plain)
