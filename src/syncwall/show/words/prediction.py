"""The sentences of a prediction.

Holds `why`, `evidence`, `assumed`, `known_runs`, `left_open`, `no_change` and `change_words`.
"""

from dataclasses import replace
from typing import Final

from syncwall.answer.evidence import Heaviest, heaviest
from syncwall.answer.improvements import Improvement, with_more_nodes
from syncwall.answer.prediction import PluggedPart, Prediction, plugged_parts
from syncwall.answer.site import WANTED
from syncwall.cause import Cause
from syncwall.cost.measured import MachineMeasurements
from syncwall.cost.rates import nccl_generation, nic_reached
from syncwall.cost.torus import REACHED, Torus
from syncwall.describe import Cluster, Run
from syncwall.describe.choice import text_of
from syncwall.show.numbers import byte_size, duration, percent, plural

_KNOB_WORDS: Final = {"gemm": str(Cause.GEMM), "elementwise": "element-wise"}
_HIDDEN: Final = 1.02
"""What takes so many times longer than it is waited for is partly hidden."""


def why(prediction: Prediction) -> str:
    """The largest work and the largest wait, with their shares."""
    ledger, step_s = prediction.ledger, prediction.step_s
    waits = {c: float(s) for c, s in ledger.items() if c.is_wait}
    works = {c: float(s) for c, s in ledger.items() if not c.is_wait}
    work = max(works, key=lambda cause: works[cause])
    words = f"{work} takes {duration(works[work])} ({percent(works[work] / step_s)})"
    if not waits:
        return words
    wait = max(waits, key=lambda cause: waits[cause])
    share = percent(waits[wait] / step_s)
    words += f"; the largest wait is {wait}, {duration(waits[wait])} ({share})"
    sent = heaviest(prediction, wait)
    return words if sent is None else f"{words}: {_sent(sent, waits[wait])}"


def _sent(sent: Heaviest, waiting_s: float) -> str:
    """What is sent, how often, and how long it takes; `waiting_s` of it and its like are seen."""
    where = "" if sent.block in sent.of else f" ({sent.block})"
    hidden = ", partly hidden" if sent.total_s > _HIDDEN * waiting_s else ""
    return (
        f"{plural(sent.calls, sent.kind)} of {' and '.join(sent.of)}{where}, "
        f"{byte_size(sent.bytes)} among {sent.ranks:,} GPUs in "
        f"{plural(sent.domains, 'scale-up domain')}, {duration(sent.each_s)} each, "
        f"{duration(sent.total_s)} a step{hidden}"
    )


def evidence(prediction: Prediction) -> str:
    """The nearest published run and how well it is predicted."""
    nearest = prediction.interval.nearest
    if nearest is None:
        return "no published run to compare with"
    far = "; nothing like it was validated: extrapolating" * prediction.interval.extrapolating
    far += "; without the plug-in that this one rests on" * bool(plugged_parts(prediction))
    return (
        f"nearest validated run {nearest.id} ({nearest.source}): predicted {nearest.ratio:.2f} of "
        f"its measured time{far}"
    )


def known_runs(prediction: Prediction) -> str:
    """How many known runs are used, what they made of the prices, and how many more would help."""
    count = len(prediction.site.known)
    left_out = "; ".join(map(_left_out, prediction.site.left_out))
    if not count:
        return left_out
    turned = prediction.pricing.knobs.by_name().items()
    prices = ", ".join(f"{_KNOB_WORDS.get(name, name)} × {value:.3f}" for name, value in turned)
    words = f"prices of this site from {plural(count, 'known run')}: {prices}"
    words += f"; {left_out}" if left_out else ""
    if count >= WANTED:
        return words
    return f"{words}; give {WANTED}: one alone may be an outlier, three tell the prices apart"


def _left_out(ratio: float) -> str:
    return (
        f"a known run is not used: it took {ratio:.2f} times as long as predicted, so its "
        "description or its machine is wrong (`syncwall predict` on its file says what may be)"
    )


def left_open(fields: dict[str, str]) -> str:
    """What the user left open, and what was chosen for it."""
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def no_change(prediction: Prediction) -> str:
    """What is left if no single change of the layout helps."""
    if not prediction.fits:
        return (
            "no single change, nor up to 64 times the nodes, nor the memory of the hosts, makes it "
            "fit: see `plan layouts`"
        )
    words = "no single change of the layout helps"
    more = next(with_more_nodes(prediction), None)
    if more is None or not more.fits:
        return words
    return f"{words}; {more.change}: {duration(prediction.step_s - more.gained_s)} a step"


def change_words(proposal: Improvement) -> str:
    """What to change, and what would then be chosen otherwise."""
    also = ", ".join(f"{name} {text_of(value)}" for name, value in proposal.also.items())
    return f"{proposal.change} (then {also})" if also else proposal.change


def assumed(prediction: Prediction) -> list[str]:
    """What the prediction takes for granted."""
    layout, fit = prediction.run.layout, prediction.calibration
    setting = prediction.prices.setting
    reached = nic_reached(prediction.run.cluster, fit.network)
    calibrated = fit.device or "a generic device, because this one has no calibration"
    far = ", extrapolating" * prediction.interval.extrapolating
    return [
        *_images(prediction.run),
        *_plugged(prediction),
        *_unvalidated(prediction.cluster),
        *_measured(fit.measured),
        f"compute calibrated for {calibrated}",
        f"gradients reduced in {layout.gradient_dtype}",
        *_collectives(prediction, reached),
        f"software as {setting.framework.title}, {setting.software.date or 'the newest'}: "
        f"attention {setting.attention}, element-wise kernels {setting.kernels}",
        f"computation loses {percent(fit.network.contention)} of its speed while weights or "
        "gradients move",
        f"step times of nodes vary by {percent(fit.ranks.jitter, 1)}; the slowest sets the pace",
        "optimizer states in fp32 (12 bytes a parameter)",
        f"interval from the errors on published runs like this one{far}",
        *([known_runs(prediction)] if prediction.site.was_asked else []),
    ]


def _images(run: Run) -> list[str]:
    """What a model that sees is given to see."""
    encoder = run.model.encoder
    if encoder is None or encoder.patches is None:
        return []
    count, side = run.layout.images or encoder.each, encoder.patches.image
    kind = "image" if count == 1 else "images or tiles"
    tokens = count * encoder.given_tokens
    return [
        f"{count} {kind} of {side} x {side} pixels in each sequence, {tokens:,} of its "
        f"{run.seq:,} tokens"
    ]


def _plugged(prediction: Prediction) -> list[str]:
    """What of the answer is not syncwall's own, a line for each entry of a package."""
    parts: dict[PluggedPart, list[str]] = {}
    for part in plugged_parts(prediction):
        parts.setdefault(replace(part, what=""), []).append(part.what)
    return [
        f"{', '.join(what)} by {part.by} of {part.package}, a plug-in"
        + (f" ({part.formula})" if part.formula else "")
        for part, what in parts.items()
    ]


def _collectives(prediction: Prediction, reached: float) -> list[str]:
    """How NCCL's collectives are priced; nothing of machines that do not run it."""
    if Torus.of(prediction.cluster) is not None:
        return []
    nics = prediction.cluster.node.nics
    if nics is not None and nics.transport == "tcp":
        return [
            f"NCCL over TCP sockets, through host memory: {percent(reached)} of NIC line rate; "
            "write `nics: {link: roce-25}` or the like if the adapters do RDMA"
        ]
    lost = percent(prediction.calibration.network.nic_per_doubling, 1)
    return [
        f"NCCL 2.28 chooses algorithms; real links reach {percent(reached)} of NIC line rate, "
        f"{lost} less with every doubling of nodes"
    ]


def _unvalidated(cluster: Cluster) -> list[str]:
    """That collectives are priced by what no measurement of such a machine was held against."""
    torus, architecture = Torus.of(cluster), cluster.device.architecture
    if torus is not None:
        shape = " x ".join(map(str, torus.axes))
        return [
            f"collectives as rings in both directions along the axes of a torus of {shape}, at "
            f"{percent(REACHED)} of the links' rate: unvalidated, no such machine was measured"
        ]
    if nccl_generation(architecture) is not None:
        return []
    return [f"NCCL has no constants for {architecture}: those of Hopper are taken"]


def _measured(measured: MachineMeasurements) -> list[str]:
    """What was measured on the machine itself."""
    kernels = len(measured.gemm) + len(measured.attention) + len(measured.elementwise)
    counts = {"kernels": kernels, "tables of collectives": len(measured.collectives)}
    words = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    where = f" ({', '.join(measured.sources)})" if measured.sources else ""
    return [f"measured on the machine itself: {words}{where}"] if words else []
