"""The flags with which verbs take a run.

Holds `RunFlags`: a run file and what overrides it.
"""

import sys
from typing import Annotated, Any

from pydantic import Field

from syncwall.ask.question import Argument, LocalFile
from syncwall.describe import Layout, Software
from syncwall.describe.base import Description
from syncwall.describe.files import RunFile
from syncwall.describe.stated import StatedRun

Name = Annotated[Any, Argument("NAME")]
Number = Annotated[Any, Argument("N")]


class RunFlags(Description):
    """A run."""

    file: Annotated[LocalFile | None, Argument("FILE", positional=True)] = None
    """A run file or a job file (YAML); flags override what it says."""
    model: Name = None
    """The model: a catalogue name, a name of the Hugging Face hub, or a path (YAML, config.json or
    its directory)."""
    cluster: Name = None
    """The machine: a catalogue name, or a path."""
    nodes: Number = None
    """Nodes used; those of the cluster if not given."""
    gpus_per_node: Number = None
    """GPUs used in each node; all of them if not given."""
    gpus: Number = None
    """GPUs used, in place of nodes; `plan layouts` and `plan network` take several: 256,512, or
    256..4096, which doubles."""
    seq: Annotated[Any, Argument("TOKENS")] = None
    """Tokens in a sequence; as many as the model was trained with if not given."""
    settings: Annotated[LocalFile | None, Argument("FILE"), Field(alias="from")] = None
    """Take model, layout and batch from settings of torchtitan (TOML), Megatron-LM (arguments),
    NeMo or Megatron-Bridge (YAML), DeepSpeed (JSON), Hugging Face accelerate (YAML) or its Trainer
    (YAML, JSON, arguments); flags override them."""
    layout: Annotated[dict[str, Any], Argument(keys_of=Layout, short=True)] = Field(default_factory=dict)
    """Parallel layout, as in a run file: tp 8, shard fsdp, bucket 25MiB, ... What is left out is
    chosen; `plan layouts` takes several values: tp 4,8."""
    software: Annotated[dict[str, Any], Argument(keys_of=Software, short=True)] = Field(default_factory=dict)
    """Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ..."""

    def stated(self) -> StatedRun:
        """The run that is meant; what settings say only roughly is told on standard error."""
        names = ("model", "cluster", "nodes", "gpus_per_node", "gpus", "seq", "layout", "software")
        keys = StatedRun.of_keys(
            {name: getattr(self, name) for name in self.model_fields_set & {*names}}
        ).keys
        if self.settings is None:
            return StatedRun(keys, file=RunFile(self.file))
        from syncwall.describe.settings import read_settings

        settings = read_settings(self.settings)
        for note in settings.notes:
            print(note, file=sys.stderr)
        return StatedRun(keys, settings, RunFile(self.file))
