"""How well spikes of a loss are told from noise: `python -m bench.watch_curve [--tuning] [FILES]`.

Falling curves with four kinds of noise, on seeds that thresholds of `syncwall.watch.spikes` were
not chosen on (`--tuning`: those that they were). Printed are false alarms in 100,000 steps, and
of 30 jumps that fade within about ten steps, how many are noticed within three. Files are logs with
"train_loss:3.28" in a line: alarms in them are listed, and jumps are put in.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.watch.spikes import spikes

STEPS, RUNS, JUMPS = 20_000, 15, 30
FADES_STEPS = 10.0
HELD_OUT, TUNING = 7000, 0
"""First seeds."""
Noise = Callable[[Any, int], Any]


def gaussian(random: Any, steps: int) -> Any:
    return random.normal(0.0, 1.0, steps)


def autoregressive(random: Any, steps: int, memory: float = 0.8) -> Any:
    shocks, found = random.normal(0.0, (1 - memory**2) ** 0.5, steps), np.empty(steps)
    found[0] = random.normal()
    for step in range(1, steps):
        found[step] = memory * found[step - 1] + shocks[step]
    return found


def student_t4(random: Any, steps: int) -> Any:
    return random.standard_t(4, steps) / 2**0.5


def skewed(random: Any, steps: int) -> Any:
    """A gamma distribution: outliers upwards only, as in losses of small batches."""
    return (random.gamma(4.0, 1.0, steps) - 4.0) / 2.0


NOISES: dict[str, Noise] = {
    "Gaussian": gaussian, "AR 0.8": autoregressive, "Student t4": student_t4, "gamma": skewed,
}  # fmt: skip


def curve(noise: Noise, deviation: float, seed: int, steps: int = STEPS) -> Any:
    """A loss that falls as a power law of the step."""
    random = np.random.default_rng(seed)
    trend = np.log(2.0 + 8.0 * (1.0 + np.arange(steps)) ** -0.4)
    return np.exp(trend + deviation * noise(random, steps))


def false_alarms(noise: Noise, deviation: float, seed: int) -> float:
    """In 100,000 steps."""
    found = sum(len(spikes(curve(noise, deviation, seed + run))) for run in range(RUNS))
    return found * 100_000 / (RUNS * STEPS)


def is_found(noise: Noise, deviation: float, height: float, seed: int) -> bool:
    """True if a jump by `height` (0.5: 50 %) is noticed within three steps."""
    at = 400 + seed % 97
    return is_noticed(curve(noise, deviation, seed, at + 3), height, at)


def is_noticed(values: Any, height: float, at: int) -> bool:
    """The same for any series that ends after the jump."""
    jumped = np.array(values, dtype=float)
    jumped[at:] *= 1.0 + height * np.exp(-np.arange(len(jumped) - at) / FADES_STEPS)
    return any(at <= one.step < at + 3 for one in spikes(jumped))


def logged(path: Path) -> list[float]:
    """Losses of a log, in the order of its lines, each once."""
    found = re.findall(r"^step:(\d+)\S* train_loss:([\d.]+|nan)", path.read_text(), re.MULTILINE)
    return [float(loss) for loss in dict(found).values()]


def published(files: list[Path]) -> None:
    """Alarms in real curves, and jumps put into them at 30 places."""
    curves = {tuple(values): path for path in files if len(values := logged(path)) > 1000}
    steps = alarms = 0
    for losses, path in curves.items():
        found = spikes(losses)
        steps, alarms = steps + len(losses), alarms + len(found)
        for one in found:
            print(f"{path.name}: step {one.step}: {one.value:.3f}, usual {one.usual:.3f}")
    print(f"{len(curves)} published curves, {steps:,} steps: {alarms} alarms")
    random = np.random.default_rng(HELD_OUT)
    places = [(v, int(random.integers(400, len(v) - 3))) for v in curves for _ in range(JUMPS)]
    for height in (0.2, 0.3, 0.5, 1.0):
        noticed = sum(is_noticed(v[at - 400 : at + 3], height, 400) for v, at in places)
        print(f"+{height:.0%}: {noticed} of {len(places)} noticed within 3 steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="on the seeds of the thresholds")
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    if given.files:
        published(given.files)
        return
    first = TUNING if given.tuning else HELD_OUT
    print("noise        deviation   false/100k   +20 %   +30 %   +50 %  +100 %   found of 30")
    for name, noise in NOISES.items():
        for deviation in (0.01, 0.02, 0.05):
            alarms = false_alarms(noise, deviation, first)
            seeds = range(first + 1000, first + 1000 + JUMPS)
            found = [
                sum(is_found(noise, deviation, height, seed) for seed in seeds)
                for height in (0.2, 0.3, 0.5, 1.0)
            ]
            print(f"{name:12} {deviation:8.0%} {alarms:12.1f} " + "".join(f"{n:8}" for n in found))


if __name__ == "__main__":
    main()
