"""The lines that training frameworks print about a step, as data.

Holds `FORMATS`: what tells each kind of line, and where each figure stands in it. All searches cost at
most a constant times the length of a line: what repeats is bounded and keeps the first place that fits.
Sources: what the frameworks print, in the logs of `tests/explain/training_logs`, and MaxText's
`metric_logger.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

FigureName = Literal[
    "step_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "flop_per_s_per_gpu",
    "mfu",
    "loss",
    "gradient_norm",
    "memory_bytes",
    "memory_share",
    "batch",
    "skipped",
    "skipped_so_far",
    "time_s",
]
NUMBER: Final = (
    r"([-+]?(?:\d[\d,]{0,24}+(?:\.\d{0,24}+)?(?:[eE][-+]?\d{1,3})?(?:[KMGT](?![A-Za-z]))?|nan|inf))"
)
_UNITS: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Figure:
    """Where one figure stands in a line; of several patterns the first that is there, or their sum."""

    patterns: tuple[re.Pattern[str], ...]
    scale: float = 1.0
    is_inverse: bool = False
    is_sum: bool = False

    def value(self, text: str) -> float | None:
        """Its value in SI units; infinite if no number is printed; None if it is not there."""
        found = [number_of(match[1]) for one in self.patterns if (match := one.search(text))]
        if not found or (self.is_sum and len(found) < len(self.patterns)):
            return None
        value = sum(found) if self.is_sum else found[0]
        if self.is_inverse:
            return self.scale / value if value > 0 else None
        return value * self.scale


def number_of(text: str) -> float:
    """A printed number: "7,123", "11.5K", "9e+3"; infinity for "nan" and "inf"."""
    if text[-1] in _UNITS:
        return float(text[:-1].replace(",", "")) * _UNITS[text[-1]]
    value = float(text.replace(",", ""))
    return value if value - value == 0 else float("inf")


def _after(*labels: str, scale: float = 1.0, is_sum: bool = False) -> Figure:
    """The number that stands after one of `labels`, with ":" or "=" between them or not."""
    lead = r"(?<![\w-])"
    found = (
        re.compile(rf"{lead}{one}['\"]?\s{{0,4}}[:=]?\s{{0,16}}{NUMBER}", re.IGNORECASE) for one in labels
    )
    return Figure(tuple(found), scale, is_sum=is_sum)


def _before(unit: str, scale: float = 1.0, *, is_inverse: bool = False) -> Figure:
    """The number that stands before `unit`."""
    return Figure((re.compile(rf"(?<![\w.]){NUMBER}\s?{unit}"),), scale, is_inverse)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One kind of line."""

    framework: str
    sign: str
    """Stands in every such line."""
    mark: re.Pattern[str]
    """Begins what is said of a step; groups `step`, `of` (steps in all) and `epoch`, as far as they
    are there."""
    figures: Mapping[FigureName, Figure | tuple[Figure, ...]]
    """Of several, the first that is there."""
    is_mean: bool = True
    """Figures are means since the line before; else they are those of one step."""
    loss_is_there: bool = False
    """A line without a loss is one whose loss is no number."""
    is_counted: bool = False
    """Without a number of the step: each is one more, or belongs to the progress bar before it."""
    is_alone: bool = True
    """Nothing else of interest stands on the same line."""


_GIB: Final = 2.0**30
_MIB: Final = 2.0**20
_STEP: Final = r"(?P<step>\d[\d,]{0,15})"


def _line(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("STEP", _STEP))


_LOSS: Final = _after("loss")
_NORM: Final = _after("grad[_ ]?norm", "gnorm")
_MEGATRON: Final[Mapping[FigureName, Figure | tuple[Figure, ...]]] = {
    "step_s": _after(r"elapsed time per iteration \(ms\)", scale=1e-3),
    "flop_per_s_per_gpu": _after(
        r"throughput per GPU \(TFLOP/s/GPU\)", "approx flops per GPU", "TFLOPs", scale=1e12
    ),
    "tokens_per_s_per_gpu": _after(
        r"tokens per gpu per second \(tgs\)", r"tokens per GPU \(tokens/s/GPU\)", "tokens/s/gpu"
    ),
    "samples_per_s": _after("samples per second", "samples/sec"),
    "loss": _after("lm[ _]loss", "loss"),
    "gradient_norm": _NORM,
    "batch": _after("global batch size"),
    "skipped": _after("number of skipped iterations"),
    "memory_bytes": _after("hip mem usage/free/total/usage_ratio", scale=_GIB),
}
_BAR: Final = r"STEP/(?P<of>\d{1,12}|\?) \[[\d:]{1,12}<[^,\]\n]{0,24},"
_RATES: Final = (_before("s/(?:it|step|batch)"), _before("(?:it|step|batch)/s", is_inverse=True))
_IN_BAR: Final = Figure((re.compile(rf"(?<![\w-])loss=\s?{NUMBER}"),))
_EPOCH: Final = r"(?:Epoch (?P<epoch>\d{1,6}):[^\[\]\n]{0,250}?)?(?<!\d)"

FORMATS: Final = (
    LineFormat(
        "nanotron",
        "elapsed_time_per_iteration_ms",
        _line(r"iteration: STEP / (?P<of>\d{1,15})"),
        {
            "step_s": _after("elapsed_time_per_iteration_ms", scale=1e-3),
            "tokens_per_s_per_gpu": _after("tokens_per_sec_per_gpu"),
            "tokens_per_s": _after("tokens_per_sec"),
            "flop_per_s_per_gpu": _after("model_tflops_per_gpu", scale=1e12),
            "loss": _after("lm_loss"),
            "gradient_norm": _NORM,
            "batch": _after("global_batch_size"),
            "memory_bytes": _after("cuda_max_memory_reserved"),
        },
    ),
    LineFormat(
        "Megatron-LM",
        "elapsed time per iteration",
        _line(r"iteration\s{1,16}STEP/\s{0,12}(?P<of>\d{1,15})"),
        _MEGATRON,
        loss_is_there=True,
    ),
    LineFormat(
        "Megatron-LM",
        "memory (MB)",
        _line(r"\(after STEP iterations\)"),
        {"memory_bytes": _after("max reserved", "max allocated", scale=_MIB)},
    ),
    LineFormat(
        "Megatron-LM",
        "MODEL_TFLOP/s/GPU",
        re.compile("GPU utilization"),
        {"flop_per_s_per_gpu": _after("GPU utilization", scale=1e12)},
    ),
    LineFormat(
        "torchtitan",
        "ps: ",
        _line(r"\bstep:\s{0,12}STEP\s{1,4}(?=\S{0,40}loss:)"),
        {
            "tokens_per_s_per_gpu": _after("tps", "wps"),
            "flop_per_s_per_gpu": _after("tflops", scale=1e12),
            "mfu": _after("mfu", scale=1e-2),
            "loss": _after("loss", "global_avg_loss"),
            "gradient_norm": _NORM,
            "memory_bytes": _after("memory", scale=_GIB),
            "memory_share": Figure((re.compile(rf"GiB\({NUMBER}%"),), 1e-2),
        },
    ),
    LineFormat(
        "MaxText",
        "completed step",
        _line(r"completed step: STEP,"),
        {
            "step_s": _after("seconds"),
            "flop_per_s_per_gpu": _after("TFLOP/s/device", scale=1e12),
            "tokens_per_s_per_gpu": _after("Tokens/s/device"),
            "loss": _LOSS,
        },
        is_mean=False,
    ),
    LineFormat(
        "NeMo",
        "reduced_train_loss",
        _line(rf"{_EPOCH}(?:{_BAR}|epoch \d{{1,6}}, iteration (?P<next>\d{{1,12}})/)"),
        {
            "step_s": (_after("train_step_timing in s"), *_RATES),
            "loss": _after("reduced_train_loss"),
            "gradient_norm": _NORM,
        },
    ),
    LineFormat(
        "nanoGPT",
        "iter ",
        _line(r"\biter STEP: loss (?=\S{1,24}, time )"),
        {"step_s": _before("ms", 1e-3), "loss": _LOSS, "mfu": _after("mfu", scale=1e-2)},
        is_mean=False,
    ),
    LineFormat(
        "litgpt",
        "iter time:",
        _line(r"\biter\s{1,6}STEP\b"),
        {
            "step_s": (
                Figure((re.compile(rf"iter time:\s{{0,4}}{NUMBER}\s?ms"),), 1e-3),
                Figure((re.compile(rf"iter time:\s{{0,4}}{NUMBER}\s?s"),)),
            ),
            "loss": _after("loss train", r"loss train \(curr\)", "loss"),
        },
        is_mean=False,
    ),
    LineFormat(
        "llm.c",
        "tok/s",
        _line(r"\bstep\s{1,8}STEP/(?P<of>\d{1,12}) \|"),
        {
            "step_s": _before(r"ms \|", 1e-3),
            "tokens_per_s": _before("tok/s"),
            "mfu": _before(r"% bf16 MFU", 1e-2),
            "loss": _after("loss", "train loss"),
            "gradient_norm": _after("norm"),
        },
    ),
    LineFormat(
        "llama2.c",
        "ms | mfu",
        _line(r"^\s{0,4}STEP \| loss"),
        {"step_s": _before("ms", 1e-3), "loss": _LOSS, "mfu": _after("mfu", scale=1e-2)},
        is_mean=False,
    ),
    LineFormat(
        "torchtune",
        "tokens_per_second_per_gpu",
        _line(r"\bStep STEP \|"),
        {
            "tokens_per_s_per_gpu": _after("tokens_per_second_per_gpu"),
            "loss": _LOSS,
            "gradient_norm": _NORM,
            "memory_bytes": _after("peak_memory_reserved", "peak_memory_active", scale=_GIB),
        },
    ),
    LineFormat(
        "MMEngine",
        "data_time:",
        _line(r"\(train\)\s{0,4}\[\s{0,8}STEP/"),
        {
            "step_s": _after("time"),
            "loss": _LOSS,
            "gradient_norm": _NORM,
            "memory_bytes": _after("memory", scale=_MIB),
        },
    ),
    LineFormat(
        "torchvision MetricLogger",
        "max mem:",
        _line(r"Epoch: \[(?P<epoch>\d{1,6})\]\s{1,4}\[\s{0,8}STEP/(?P<of>\d{1,12})\]"),
        {
            "step_s": _after("time"),
            "loss": _after("loss", "closs"),
            "memory_bytes": _after("max mem", scale=_MIB),
        },
    ),
    LineFormat(
        "DeepSpeed",
        "SamplesPerSec",
        _line(r"(?:global_step=|\b\d{1,9}/)STEP, (?:Running)?(?:Avg)?SamplesPerSec"),
        {
            "samples_per_s": _after("CurrSamplesPerSec", "SamplesPerSec", "RunningAvgSamplesPerSec"),
            "memory_bytes": _after("MaxMemAllocated", scale=_GIB),
        },
        is_alone=False,
    ),
    LineFormat(
        "DeepSpeed",
        ", skipped=",
        _line(r"\] step=STEP, skipped"),
        {"skipped_so_far": _after("skipped")},
        is_alone=False,
    ),
    LineFormat(
        "DeepSpeed",
        "time (ms) |",
        re.compile(r"time \(ms\) \| (?:forward|fwd): "),
        {"step_s": _after("(?:forward|fwd)", "(?:backward|bwd)", "step", scale=1e-3, is_sum=True)},
        is_counted=True,
        is_alone=False,
    ),
    LineFormat(
        "DeepSpeed micro-batches",
        "_microstep",
        re.compile(r"time \(ms\) \| (?:forward|fwd)_microstep: "),
        {
            "step_s": _after(
                "(?:forward|fwd)_microstep",
                "(?:backward|bwd)_microstep",
                "step_microstep",
                scale=1e-3,
                is_sum=True,
            )
        },
        is_counted=True,
        is_alone=False,
    ),
    LineFormat(
        "Lightning",
        "v_num=",
        _line(_EPOCH + _BAR),
        {"step_s": _RATES, "loss": _after("loss", "train_loss", "train_loss_step")},
        is_alone=False,
    ),
    LineFormat("tqdm", "<", _line(_EPOCH + _BAR), {"step_s": _RATES, "loss": _IN_BAR}, is_alone=False),
    LineFormat(
        "Hugging Face Trainer",
        "'loss':",
        re.compile(r"(?<!>> )\{'loss':"),
        {
            "loss": _LOSS,
            "gradient_norm": _NORM,
            "tokens_per_s": _after("step_tokens_per_second", "tokens_per_second"),
            "memory_bytes": _after("step_peak_memory_reserved_MB", scale=_MIB),
        },
        is_counted=True,
        is_alone=False,
    ),
    LineFormat(
        "Hugging Face Trainer",
        "train_step_runtime",
        re.compile(r"\{'train_step_runtime':"),
        {"samples_per_s": _after("train_step_samples_per_second")},
        is_counted=True,
        is_alone=False,
    ),
)
"""In the order in which they are tried, and preferred where one log has several."""

STEP_LINE: Final = (
    r"elapsed[ _]time[ _]per[ _]iteration|\b[tw]ps: {1,9}\d|tokens_per_second_per_gpu:|completed step: \d"
    r"|SamplesPerSec=|\b(?:forward|fwd)(?:_microstep)?: \d|reduced_train_loss|\biter \d{1,9}: loss \d"
    r"|iter time: ?\d|ms \| mfu|% bf16 MFU|data_time: |max mem: |\{'loss': |'train_step_runtime': "
    r"|\d(?:s/it|it/s)[,\]]"
)
"""What a training log is told by: one of these stands in each line about a step."""
