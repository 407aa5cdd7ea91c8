"""The one model of the package, for a layout or for arrays of them.

Holds `evaluate`, `priced_step` and `prices_of`.
"""

from typing import Any

from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork, Network
from syncwall.cost.measured import Measured
from syncwall.cost.measured_network import MeasuredNetwork
from syncwall.cost.prices import Prices
from syncwall.cost.software import Setting
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.timeline.step import StepTime, step_time
from syncwall.work.block import Work
from syncwall.work.step import transformer_step

_DEFAULT_SOFTWARE = Software()


def evaluate(
    model: Model,
    cluster: Cluster,
    layout: Layout,
    seq: Any,
    *,
    software: Software = _DEFAULT_SOFTWARE,
    network: Network | None = None,
) -> tuple[Work, StepTime]:
    """Work and time of a resolved layout, or of arrays of them; the one model of the package."""
    work, time, _ = priced_step(model, cluster, layout, seq, software, network=network)
    return work, time


def priced_step(  # noqa: PLR0913 - a run has this many parts
    model: Model,
    cluster: Cluster,
    layout: Layout,
    seq: Any,
    software: Software,
    *,
    network: Network | None = None,
    measured: Measured | None = None,
) -> tuple[Work, StepTime, Prices]:
    """The same with the prices that it rests on; what was `measured` beats the catalogue."""
    prices = prices_of(cluster, layout, software, network, measured)
    work = transformer_step(prices.setting.padded(model), layout, seq)
    return work, step_time(work, layout, prices, layout.gpus), prices


def prices_of(
    cluster: Cluster,
    layout: Layout,
    software: Software,
    network: Network | None,
    measured: Measured | None = None,
) -> Prices:
    """What operations cost on `cluster` with `software`, communication by `network` if given.

    What was `measured` on the very machine beats the catalogue.
    """
    setting = Setting.of(software)
    fit = setting.tuned(calibration(cluster.device, measured))
    wires = network or NcclNetwork(layout, cluster, fit.network)
    if network is None and fit.measured.collectives:
        wires = MeasuredNetwork(fit.measured.collectives, layout, cluster, wires)
    host_s = setting.host_s(layout, cluster, fit.elementwise.eager)
    return Prices(cluster.device, wires, fit, setting, host_s)
