"""Lines of the ledger for the calls of a recorded program.

Holds `cause_of`: of its own seconds, and of those in which computation waits for it.
"""

from typing import Final

from syncwall.cause import Cause
from syncwall.work.block import Phase
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Message,
    Offload,
)
from syncwall.work.program import Call

_KERNELS: Final[dict[type, Cause]] = {
    Gemm: Cause.GEMM,
    CoreAttention: Cause.ATTENTION,
    Convolution: Cause.CONVOLUTION,
    Elementwise: Cause.ELEMENTWISE,
    Offload: Cause.EXPOSED_OFFLOAD,
    Message: Cause.EXPOSED_PP,
}
_BY_AXIS: Final = {
    "tp": Cause.EXPOSED_TP,
    "cp": Cause.EXPOSED_CP,
    "ep": Cause.EXPOSED_EP,
    "dp": Cause.EXPOSED_DP,
    "shard": Cause.EXPOSED_DP,
    "replica": Cause.EXPOSED_DP,
    "expert-shard": Cause.EXPOSED_DP,
    "expert-replica": Cause.EXPOSED_DP,
    "pp": Cause.EXPOSED_PP,
}


def cause_of(call: Call) -> Cause:
    """The line for the seconds in which `call` runs, or computation waits for it."""
    what = call.what
    if isinstance(what, Collective):
        return _exposed(what)
    if call.phase is Phase.FINISH and isinstance(what, Elementwise):
        return Cause.OPTIMIZER
    if call.phase is Phase.RECOMPUTE:
        return Cause.RECOMPUTE
    if isinstance(what, Elementwise) and what.kind.startswith("copy"):
        return Cause.COPY
    return _KERNELS.get(type(what), Cause.OTHER_KERNELS)


def _exposed(collective: Collective) -> Cause:
    if collective.axis in ("shard", "expert-shard") and collective.kind == "all-gather":
        return Cause.EXPOSED_GATHER
    return _BY_AXIS.get(collective.axis) or Cause.exposed(collective.kind)
