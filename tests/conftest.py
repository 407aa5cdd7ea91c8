from hypothesis import settings

# Timings vary on shared machines; what is slow is caught by the benchmarks.
settings.register_profile("syncwall", deadline=None)
settings.load_profile("syncwall")
