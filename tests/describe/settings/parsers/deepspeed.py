"""DeepSpeed's own validation of a printed configuration, with those of accelerate and transformers.

Reads a list of cases as JSON, writes what is wrong with each.
"""

import copy
import json
import logging
import sys
import warnings
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from accelerate.utils.deepspeed import HfDeepSpeedConfig  # noqa: E402
from deepspeed.runtime import config  # noqa: E402
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: E402


def problem(text: str, model: dict[str, Any], gpus: int) -> str | None:
    """What they say against a configuration; None if nothing."""
    stated = json.loads(text)
    ranks = stated.get("tensor_parallel", {}).get("autotp_size", 1) * stated.get("sequence_parallel_size", 1)
    config.dist = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: gpus)
    mpu = SimpleNamespace(get_data_parallel_world_size=lambda: gpus // (ranks * model["pp"]))
    try:
        config.DeepSpeedConfig(copy.deepcopy(stated), mpu=mpu)
        HfDeepSpeedConfig(copy.deepcopy(stated))
        HfTrainerDeepSpeedConfig(copy.deepcopy(stated))
    except (AssertionError, ValueError, TypeError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    cases, out = json.load(sys.stdin), sys.stdout
    sys.stdout = sys.stderr  # its loggers write there
    found = [problem(**case) for case in cases]
    print(json.dumps(found), file=out)
