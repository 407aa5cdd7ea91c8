"""The arguments that a verb takes, as its help lists them."""

from syncwall.cli import flags
from syncwall.cli.commands import commands, types_of

__all__ = ["commands", "every_flag", "flags_of", "short_forms"]


def every_flag(command: str) -> list[flags.Flag]:
    """The flags and arguments of `command`."""
    return flags.flags_of(*types_of(command))


def flags_of(command: str) -> list[str]:
    """Every argument of `command`; with what it takes if a verb states that."""
    own = [f"{one.name} {one.takes}" if _is_stated(one) else one.name for one in every_flag(command)]
    return ["--help", *own]


def _is_stated(flag: flags.Flag) -> bool:
    stated = flag.takes.isupper() and flag.takes.isalpha() and flag.takes != "KIND"
    return flag.is_named and "." not in flag.name and stated


def short_forms(command: str) -> dict[str, str]:
    """The short form of each argument that has one."""
    return {one.name: one.short for one in every_flag(command) if one.short != one.name}
