"""For the Trainer of Hugging Face: `Trainer(..., callbacks=[WatchCallback()])`.

Holds `WatchCallback`. Tokens are told with `include_num_input_tokens_seen=True`.
"""

from typing import Any

from transformers import TrainerCallback

from syncwall.watch.attach import start, tell
from syncwall.watch.callbacks import tell_logged


class WatchCallback(TrainerCallback):
    """Watches the training; `expect` names what it should be like, as in `syncwall.watch.start`."""

    def __init__(self, expect: str | None = None) -> None:
        self._expect, self._tokens = expect, 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start, unless the process is watched already."""
        start(self._expect)
        self._tokens = float(state.num_input_tokens_seen or 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tokens of the step, of this rank."""
        seen = float(state.num_input_tokens_seen or 0)
        if seen > self._tokens:
            tell(tokens=(seen - self._tokens) / max(int(args.world_size), 1))
            self._tokens = seen

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Loss and gradient norm, as logged."""
        tell_logged(logs or {})
