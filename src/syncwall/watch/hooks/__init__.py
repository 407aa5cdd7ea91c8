"""Where a trainer is watched: one file a part of PyTorch, each with `attach(watching)`.

Nothing here may change what a training computes, synchronise, communicate, or raise.
"""
