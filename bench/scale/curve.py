"""How well spikes of a loss are told from noise: falling curves with four kinds of noise."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import Dirs
from syncwall.explain.loss_spikes import spikes

STEPS, RUNS, JUMPS = 20_000, 15, 30
FADES_STEPS = 10.0
HEIGHTS = (0.2, 0.3, 0.5, 1.0)
HELD_OUT, TUNING = 7000, 0
"""First seeds."""
Noise = Callable[[Any, int], Any]


def autoregressive(random: Any, steps: int, memory: float = 0.8) -> Any:
    shocks, found = random.normal(0.0, (1 - memory**2) ** 0.5, steps), np.empty(steps)
    found[0] = random.normal()
    for step in range(1, steps):
        found[step] = memory * found[step - 1] + shocks[step]
    return found


NOISES: dict[str, Noise] = {
    "Gaussian": lambda random, steps: random.normal(0.0, 1.0, steps),
    "AR 0.8": autoregressive,
    "Student t4": lambda random, steps: random.standard_t(4, steps) / 2**0.5,
    # outliers upwards only, as in losses of small batches
    "gamma": lambda random, steps: (random.gamma(4.0, 1.0, steps) - 4.0) / 2.0,
}


def falling(noise: Noise, deviation: float, seed: int, steps: int = STEPS) -> Any:
    random = np.random.default_rng(seed)
    trend = np.log(2.0 + 8.0 * (1.0 + np.arange(steps)) ** -0.4)
    return np.exp(trend + deviation * noise(random, steps))


def is_noticed(values: Any, height: float, at: int) -> bool:
    """True if a jump by `height` (0.5: 50 %) of a series is noticed within three steps."""
    jumped = np.array(values, dtype=float)
    jumped[at:] *= 1.0 + height * np.exp(-np.arange(len(jumped) - at) / FADES_STEPS)
    return any(at <= one.step < at + 3 for one in spikes(jumped))


def published(files: Sequence[Path]) -> None:
    curves: dict[tuple[float, ...], Path] = {}
    for path in files:
        logged = re.findall(r"^step:(\d+)\S* train_loss:([\d.]+|nan)", path.read_text(), re.MULTILINE)
        if len(losses := dict(logged)) > 1000:
            curves[tuple(map(float, losses.values()))] = path
    steps = alarms = 0
    for values, path in curves.items():
        found = spikes(list(values))
        steps, alarms = steps + len(values), alarms + len(found)
        for one in found:
            print(f"{path.name}: step {one.step}: {one.value:.3f}, usual {one.usual:.3f}")
    print(f"{len(curves)} published curves, {steps:,} steps: {alarms} alarms")
    random = np.random.default_rng(HELD_OUT)
    places = [(v, int(random.integers(400, len(v) - 3))) for v in curves for _ in range(JUMPS)]
    for height in HEIGHTS:
        noticed = sum(is_noticed(v[at - 400 : at + 3], height, 400) for v, at in places)
        print(f"+{height:.0%}: {noticed} of {len(places)} noticed within 3 steps")


def curve(files: Dirs = (), tuning: bool = False) -> None:
    """False alarms in 100,000 steps, and how many of 30 jumps are noticed within three.

    Jumps fade within about ten steps. On seeds that the thresholds of `syncwall.explain.loss_spikes` were
    not chosen on (--tuning: those that they were). Files are logs with "train_loss:3.28" in a line:
    alarms in them are listed, and jumps are put in.
    """
    if files:
        published(files)
        return
    first = TUNING if tuning else HELD_OUT
    print("noise        deviation   false/100k   +20 %   +30 %   +50 %  +100 %   found of 30")
    for name, noise in NOISES.items():
        for deviation in (0.01, 0.02, 0.05):
            curves = (falling(noise, deviation, first + run) for run in range(RUNS))
            alarms = sum(len(spikes(one)) for one in curves) * 100_000 / (RUNS * STEPS)
            seeds = range(first + 1000, first + 1000 + JUMPS)
            places = [(seed, 400 + seed % 97) for seed in seeds]
            short = [(falling(noise, deviation, seed, at + 3), at) for seed, at in places]
            found = [sum(is_noticed(v, height, at) for v, at in short) for height in HEIGHTS]
            print(f"{name:12} {deviation:8.0%} {alarms:12.1f} " + "".join(f"{n:8}" for n in found))
