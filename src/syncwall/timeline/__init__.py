"""When things happen: streams, overlap, pipelines and waiting, summed as a ledger.

Holds `Ledger`, `Clock` (streams) and `step_time` (a whole step).
"""
