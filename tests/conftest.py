import os

from hypothesis import settings

# Timings vary on shared machines; what is slow is caught by the benchmarks. Continuous integration
# tries the same cases every time, so that it fails only for a change; elsewhere cases are random.
settings.register_profile("syncwall", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("syncwall")
# pytest-xdist sets it: what is printed into a pipe has the width that users get without it.
os.environ.pop("COLUMNS", None)
