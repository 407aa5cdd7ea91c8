import os
import time
from collections.abc import Callable, Generator, Iterable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.errors import UnsatisfiedAssumption

MARKED = {"web/browser": pytest.mark.browser, "laws": pytest.mark.slow, "capture": pytest.mark.slow}
"""Folders of which every test has a mark."""
QUICK_CPU_S, SLOW_CPU_S = 2.5, 5.0
"""CPU time that a law spends on cases; the rest of them are left to the profile `weekly`."""
TIMES_WEEKLY = 10
"""Cases of the profile `weekly`, over those that a law states."""
IS_WEEKLY = os.environ.get("SYNCWALL_LAWS") == "weekly"

# Timings vary on shared machines; what is slow is caught by the benchmarks. Continuous integration
# tries the same cases every time, so that it fails only for a change; elsewhere cases are random.
same_cases = bool(os.environ.get("CI")) and not IS_WEEKLY
slow_is_no_fault = [HealthCheck.too_slow]
settings.register_profile(
    "syncwall", deadline=None, derandomize=same_cases, suppress_health_check=slow_is_no_fault
)
settings.load_profile("syncwall")
# pytest-xdist sets it: what is printed into a pipe has the width that users get without it.
os.environ.pop("COLUMNS", None)


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Cases of which every so many is tried for each change, and the others weekly."""
    one_or_more = (one if isinstance(one, tuple) else (one,) for one in cases)
    return [
        pytest.param(*one, marks=[pytest.mark.weekly] if place % every else [])
        for place, one in enumerate(one_or_more)
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in _marks(item.path):
            item.add_marker(mark)


@cache
def _marks(path: Path) -> list[pytest.MarkDecorator]:
    here = Path(__file__).parent
    return [mark for folder, mark in MARKED.items() if path.is_relative_to(here / folder)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A law has a budget; which laws did not get through all their cases is said at the end."""
    law = getattr(getattr(item, "obj", None), "hypothesis", None)
    if law is None:
        return (yield)
    test, whole = item.obj, law.inner_test  # type: ignore[attr-defined]
    stated: Any = getattr(test, "_hypothesis_internal_use_settings", settings.default)
    if IS_WEEKLY:
        many = settings(stated, max_examples=stated.max_examples * TIMES_WEEKLY, derandomize=False)
        test._hypothesis_internal_use_settings = many
        try:
            return (yield)
        finally:
            test._hypothesis_internal_use_settings = stated
    budget = Budget(SLOW_CPU_S if item.get_closest_marker("slow") else QUICK_CPU_S)
    law.inner_test = budget.of(whole)
    try:
        return (yield)
    except Spent:
        return None
    finally:
        law.inner_test = whole
        if budget.is_spent:
            item.user_properties.append(("cases", f"{budget.tried} of {stated.max_examples}"))


class Spent(KeyboardInterrupt):
    """A law has no CPU time left: Hypothesis ends at once, as it does for Ctrl-C.

    A case that did nothing would draw less than the same case before, which Hypothesis takes for a
    strategy that depends on something else.
    """


class Budget:
    """Ends a law once its CPU time is spent, unless a case has failed.

    A case that failed is tried again, to be made smaller and to be shown.
    """

    def __init__(self, cpu_s: float) -> None:
        self.cpu_s = cpu_s
        self.tried = 0
        self.has_failed = self.is_spent = False

    def of(self, law: Callable[..., Any]) -> Callable[..., Any]:
        """The law, which costs at most so much and one case."""

        @wraps(law)
        def within(*args: Any, **kwargs: Any) -> Any:
            if self.cpu_s <= 0 and not self.has_failed:
                self.is_spent = True
                raise Spent
            self.tried += 1
            start = time.process_time()
            try:
                return law(*args, **kwargs)
            except UnsatisfiedAssumption:
                raise
            except Exception:
                self.has_failed = True
                raise
            finally:
                self.cpu_s -= time.process_time() - start

        return within


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.stats.get("passed", [])
    cut = {one.nodeid: dict(one.user_properties).get("cases") for one in reports}
    cut = {name: cases for name, cases in cut.items() if cases}
    if cut:
        terminalreporter.section("laws whose CPU time was spent before their cases")
        for name, cases in sorted(cut.items()):
            terminalreporter.write_line(f"{name}: {cases} cases")
