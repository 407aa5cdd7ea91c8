"""Records one training step of a user's own program, without a GPU.

Only the files that run the program import PyTorch. `syncwall.capture(step_fn, world_size=1024)`
calls `step.capture`.
"""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.capture.step_function:capture")
