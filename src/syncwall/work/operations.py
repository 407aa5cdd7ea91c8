"""The things a step does, each with its FLOPs and bytes.

Holds `Gemm`, `CoreAttention`, `Convolution`, `Elementwise`, `Kernel`, `Scan`, `Collective`,
`Message`, `Offload` and `Transfer`, and `Group`, the ranks that communicate. A multiply-add is 2
FLOP. Dimensions are numbers or arrays that broadcast together.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal

from syncwall.describe.choice import Dtype
from syncwall.work.number import Number, least

CollectiveKind = Literal[
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
]
Dimensions = dict[str, float | bool | str]
GroupAxis = Literal[
    "tp", "cp", "ep", "dp", "shard", "replica", "expert-shard", "expert-replica", "pp", "other"
]


@dataclass(frozen=True, slots=True)
class Gemm:
    """Matrix multiplications (m x k) by (k x n), `count` of them alike."""

    measured_as: ClassVar[Literal["gemm"]] = "gemm"
    """Its block of a calibration."""
    m: Number
    n: Number
    k: Number
    dtype: Dtype = Dtype.BF16
    count: Number = 1
    is_weight_gradient: bool = False
    """Contracts over tokens and adds to a gradient, often kept in fp32."""
    is_batched: bool = False
    """All of them are one kernel (`bmm`), instead of a group with something to start for each."""

    @property
    def flops(self) -> Number:
        """FLOP of all of them."""
        return 2.0 * self.m * self.n * self.k * self.count

    @property
    def hbm_bytes(self) -> Number:
        """Least memory traffic: both inputs once, the output once."""
        size = self.dtype.size_bytes
        out = 4.0 if self.is_weight_gradient else max(size, 2.0)
        read = size * (self.m * self.k + self.k * self.n)
        return self.count * (read + out * self.m * self.n)

    @property
    def dimensions(self) -> Dimensions:
        """As plain values, under the names that measured points of a calibration have."""
        sizes = {"m": float(self.m), "n": float(self.n), "k": float(self.k)}
        return {**sizes, "dtype": str(self.dtype), "is_weight_gradient": self.is_weight_gradient}

    def scaled(self, share: Number) -> "Gemm":
        """A part of it."""
        return replace(self, count=self.count * share)

    @property
    def for_input(self) -> "Gemm":
        """The multiplication that gives the gradient of its input."""
        return Gemm(self.m, self.k, self.n, self.dtype, self.count)

    @property
    def for_weight(self) -> "Gemm":
        """The multiplication that gives the gradient of its weight."""
        return Gemm(self.k, self.n, self.m, self.dtype, self.count, is_weight_gradient=True)


@dataclass(frozen=True, slots=True)
class CoreAttention:
    """Scores, softmax and weighted values of `batch` sequences."""

    measured_as: ClassVar[Literal["attention"]] = "attention"
    """Its block of a calibration."""
    batch: Number
    heads: Number
    q_len: Number
    """Queries of one sequence on this rank."""
    kv_len: Number
    """Keys that a query may see, the last one all of them."""
    head_dim: Number
    v_dim: Number
    kv_heads: Number = 1
    window: Number | None = None
    """Keys that a query sees at most; None for all before it. Without a causal mask it is in the
    middle of them."""
    pieces: Number = 1
    """Kernels that it is cut into along the keys, one after the other (ring attention)."""
    is_backward: bool = False
    is_causal: bool = True
    """False if every query sees every key (encoders, diffusion, cross-attention)."""
    overhead: Number = 1.0
    """FLOP that the kernel computes over those of the mathematics (sparse latent attention)."""

    @property
    def pairs(self) -> Number:
        """Query-key pairs of one head and sequence that the mask leaves.

        Under the causal one a rank's queries are spread over the whole sequence: each sees half of
        it on average.
        """
        if not self.is_causal and self.window is not None:
            beside = least((self.window - 1.0) / 2.0, self.kv_len - 1.0)  # keys on either side
            return self.q_len * (1.0 + 2.0 * beside - beside * (beside + 1.0) / self.kv_len)
        if not self.is_causal:
            return self.q_len * self.kv_len
        if self.window is None:
            return self.q_len * (self.kv_len + 1) / 2.0
        window = least(self.window, self.kv_len)
        return self.q_len * (window - window * (window - 1.0) / (2.0 * self.kv_len))

    @property
    def model_flops(self) -> Number:
        """FLOP of the mathematics: 2 matrix products forward, 4 backward, below the diagonal."""
        products = 2.0 if self.is_backward else 1.0
        each = 2.0 * self.batch * self.heads * self.pairs * (self.head_dim + self.v_dim)
        return products * each

    @property
    def flops(self) -> Number:
        """FLOP that a fused kernel computes: 5 products backward, one of them the scores again."""
        return self.model_flops * (1.25 if self.is_backward else 1.0) * self.overhead

    @property
    def square_flops(self) -> Number:
        """`model_flops` as some sources count them: with the half that the mask removes."""
        return self.model_flops * self.kv_len * self.q_len / self.pairs

    @property
    def hbm_bytes(self) -> Number:
        """Queries, keys, values and output once in 16 bits; gradients too when backward."""
        query = self.q_len * self.heads * (self.head_dim + self.v_dim)
        keys = self.kv_len * self.kv_heads * (self.head_dim + self.v_dim)
        return (3.0 if self.is_backward else 1.0) * 2.0 * self.batch * (query + keys)

    @property
    def dimensions(self) -> Dimensions:
        """As plain values, under the names that measured points of a calibration have."""
        return {
            "batch": float(self.batch),
            "heads": float(self.heads),
            "length": float(self.q_len),
            "head_dim": float(self.head_dim),
            "kv_heads": float(self.kv_heads),
            "is_backward": self.is_backward,
            **({} if self.is_causal else {"is_causal": False}),
        }

    def scaled(self, share: Number) -> "CoreAttention":
        """A part of it."""
        return replace(self, batch=self.batch * share)

    @property
    def backward(self) -> "CoreAttention":
        """The gradients of all inputs."""
        return replace(self, is_backward=True)


@dataclass(frozen=True, slots=True)
class Eager:
    """A fused kernel as the kernels that PyTorch runs for it one by one."""

    traffic: float
    """Their memory traffic over that of the fused one."""
    kernels: float


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Work that is limited by memory: norms, activations, residuals, casts, optimizers."""

    measured_as: ClassVar[Literal["elementwise"]] = "elementwise"
    """Its block of a calibration."""
    bytes: Number
    """Memory traffic."""
    kernels: Number = 1
    """Launches."""
    is_fused: bool = False
    """True if every implementation fuses it (optimizers over lists of tensors)."""
    kind: str = ""
    """What it is (norm, activation, norm backward, optimizer, ...), as measurements name it."""
    eager: Eager | None = None
    """The same without fusion, of what all fuse that of an optimizer; None where nobody counted it."""

    @property
    def flops(self) -> Number:
        """Not counted, by convention."""
        return 0.0 * self.bytes

    @property
    def hbm_bytes(self) -> Number:
        """Memory traffic."""
        return self.bytes

    @property
    def dimensions(self) -> Dimensions:
        """As plain values, under the names that measured points of a calibration have."""
        return {"kind": self.kind, "bytes": float(self.bytes)}

    def scaled(self, share: Number) -> "Elementwise":
        """A part of it."""
        return replace(self, bytes=self.bytes * share, kernels=self.kernels * share)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution, or one of its gradients, as the multiplication that it amounts to."""

    measured_as: ClassVar[Literal["convolution"]] = "convolution"
    """Its block of a calibration."""
    m: Number
    """Positions of the output, of all samples."""
    n: Number
    """Channels of the output, of one group."""
    k: Number
    """Channels of the input, of one group, times the size of the kernel."""
    bytes: Number
    """Input, weight and output, each once."""
    groups: Number = 1
    dtype: Dtype = Dtype.BF16
    is_backward: bool = False
    """One of its gradients."""

    @property
    def flops(self) -> Number:
        """FLOP of all groups."""
        return 2.0 * self.m * self.n * self.k * self.groups

    @property
    def hbm_bytes(self) -> Number:
        """Memory traffic."""
        return self.bytes

    @property
    def dimensions(self) -> Dimensions:
        """As plain values, under the names that measured points of a calibration have."""
        sizes = {name: float(getattr(self, name)) for name in ("m", "n", "k", "bytes", "groups")}
        return {**sizes, "dtype": str(self.dtype), "is_backward": self.is_backward}


@dataclass(frozen=True, slots=True)
class Kernel:
    """Anything else of which FLOP and memory traffic are known."""

    flops: Number
    bytes: Number
    dtype: Dtype = Dtype.BF16

    @property
    def hbm_bytes(self) -> Number:
        """Memory traffic."""
        return self.bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """Chunks of linear attention or of a state-space layer, and the states between them."""

    flops: Number
    """Of the products of all chunks."""
    bytes: Number
    tokens: Number
    chunk: Number
    """Tokens of a chunk."""
    heads: Number
    is_backward: bool = False
    by_token: bool = False
    """True if it goes token by token on vector units, not by products of chunks (Mamba-1)."""

    @property
    def hbm_bytes(self) -> Number:
        """Memory traffic."""
        return self.bytes

    def scaled(self, share: Number) -> "Scan":
        """A part of it."""
        flops, bytes_, tokens = (share * n for n in (self.flops, self.bytes, self.tokens))
        return replace(self, flops=flops, bytes=bytes_, tokens=tokens)


@dataclass(frozen=True, slots=True)
class Message:
    """What one rank sends to another, or receives from it."""

    bytes: Number
    sender: int
    receiver: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Ranks that communicate; all groups of an axis do so at the same time."""

    axis: GroupAxis
    """What the group is for."""
    ranks: Number
    stride: Number = 1
    """From each of its ranks to the next."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Communication of all ranks of a group.

    `bytes` is the size that nccl-tests prints: the vector for all-reduce and broadcast, the whole
    over all ranks for all-gather and reduce-scatter, what one rank sends for all-to-all.
    """

    kind: CollectiveKind
    bytes: Number
    group: Group
    calls: Number = 1
    """Equal calls that together move `bytes` (buckets)."""
    share: Number = 1
    """Share of the steps in which it happens at all (DiLoCo)."""
    copies: Number = 1
    """Copies of each element among `bytes` (a token goes to several experts) where those for one
    rank are sent once, and those for one scale-up domain cross the network once."""
    domains: Number = inf
    """Scale-up domains at most among which the copies of an element are spread."""

    @property
    def axis(self) -> GroupAxis:
        """What its group is for."""
        return self.group.axis


def expected_places(places: Number, copies: Number) -> Number:
    """Different places among `copies` random ones of so many `places`, on average."""
    return places * (1.0 - (1.0 - 1.0 / places) ** copies)


@dataclass(frozen=True, slots=True)
class Offload:
    """A copy between the memories of device and host, and what the host then does in its own."""

    bytes: Number
    """Over the link between them."""
    host_bytes: Number = 0.0
    """Memory traffic of the host's processor."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A message from one pipeline stage to the next."""

    bytes: Number
    group: Group
    """All stages of a pipeline; the slowest pair of neighbours counts."""
