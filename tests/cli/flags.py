"""The arguments that a verb takes, as its help lists them."""

from syncwall.cli import flags
from syncwall.cli.verbs import functions

FUNCTIONS = functions()


def commands() -> list[str]:
    """Every verb, and of a verb with parts every part: "show", "measure links"."""
    return list(FUNCTIONS)


def flags_of(command: str) -> list[str]:
    """Every argument of `command`; with what it takes if a verb states that."""
    found = flags.flags_of(FUNCTIONS[command])
    own = [f"{one.name} {one.takes}" if _is_stated(one) else one.name for one in found]
    return ["--help", *own]


def _is_stated(flag: flags.Flag) -> bool:
    stated = flag.takes.isupper() and flag.takes.isalpha() and flag.takes != "KIND"
    return flag.is_named and "." not in flag.name and stated


def short_forms(command: str) -> dict[str, str]:
    """The short form of each argument that has one."""
    found = flags.flags_of(FUNCTIONS[command])
    return {one.name: one.short for one in found if one.short != one.name}
