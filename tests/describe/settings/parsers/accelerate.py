"""accelerate's own validation of a printed configuration, without a GPU.

Reads a list of cases as JSON, writes what is wrong with each: `accelerate launch` parses the file, and its
environment then makes the plugins that an `Accelerator` checks against its processes.
"""

import json
import os
import sys
import tempfile
import warnings
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")

import accelerate.utils.launch as prepared  # noqa: E402
from accelerate.commands import launch  # noqa: E402
from accelerate.parallelism_config import ParallelismConfig  # noqa: E402
from accelerate.utils import FullyShardedDataParallelPlugin  # noqa: E402

prepared.is_fp8_available = lambda: True  # on a machine with GPUs; settings do not choose it


def check(text: str, gpus: int) -> None:
    """Raise what accelerate raises."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        asked = launch.launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        arguments, _, _ = launch._validate_launch_command(asked)
    assert arguments.num_processes == gpus, "num_processes"
    os.environ |= prepared.prepare_multi_gpu_env(arguments)
    if arguments.use_fsdp:
        plugin, precision = FullyShardedDataParallelPlugin(), arguments.mixed_precision
        if precision != "no":
            plugin.set_mixed_precision("bf16" if precision == "fp8" else precision)
    asking = SimpleNamespace(
        multi_device=gpus > 1,
        num_processes=gpus,
        is_fsdp2=arguments.use_fsdp,
        is_main_process=False,
        distributed_type="FSDP" if arguments.use_fsdp else "MULTI_GPU",
    )
    if any(name.startswith("PARALLELISM_CONFIG_") for name in os.environ):
        ParallelismConfig()._validate_accelerator(asking)


def problem(text: str, model: dict[str, Any], gpus: int) -> str | None:
    """What accelerate says against a configuration; None if nothing."""
    before = dict(os.environ)
    try:
        check(text, gpus)
    except (AssertionError, ValueError, TypeError, KeyError, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        os.environ.clear()
        os.environ |= before
    return None


if __name__ == "__main__":
    print(json.dumps([problem(**case) for case in json.load(sys.stdin)]))
