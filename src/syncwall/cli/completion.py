"""`syncwall completion`: scripts with which a shell completes verbs, parts, flags and names.

Holds `completion`. All words are in the script, so that the Tab key starts no Python.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from syncwall.ask.question import Argument
from syncwall.cli.call import Command

if TYPE_CHECKING:
    from syncwall.cli.flags import Flag

Commands = Mapping[str, "list[Flag]"]
"""The flags of every verb and part."""
_CATALOGUE: Final = {
    "--model": "model",
    "--cluster": "cluster",
    "--software.framework": "framework",
    "--device": "device",
    "--switch": "switch",
    "--job.failures.like": "failure",
}
"""Flags that take the name of an entry."""
_FILES: Final = ("FILE", "DIR", "PATH", "RESULT", "NAME")
"""What stands for a file, or may be one."""
_ANSWER: Final = """\
_syncwall_words() {{  # the word to complete and those before it: what it may become
  local current="$1" command="${{2-}}" last=
  shift
  for last; do :; done
  case "$#:$command" in
    [01]:) echo '{verbs}'; return;;
{parts}
  esac
  case "$command" in {verbs_with_parts}) command="$command ${{2-}}";; esac
  case "$command:$last" in
{choices}
  esac
  case "$last" in
    {alone}) ;;
    --*) return;;
  esac
  case "$command:$current" in
{rest}
  esac
}}
"""
_BASH: Final = """\
_syncwall() {
  local before=("${COMP_WORDS[@]:1:COMP_CWORD-1}") current="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=($(compgen -W "$(_syncwall_words "$current" "${before[@]}")" -- "$current"))
}
complete -o bashdefault -o default -F _syncwall syncwall
"""
_ZSH: Final = """\
_syncwall() {
  local found="$(_syncwall_words "$words[CURRENT]" "${(@)words[2,CURRENT-1]}")"
  if [[ -n $found ]]; then compadd -- ${=found}; else _files; fi
}
if [[ $funcstack[1] = _syncwall ]]; then _syncwall "$@"; else compdef _syncwall syncwall; fi
"""


class CompletionCommand(Command):
    """Print a script that completes verbs, parts, flags, choices and names of the catalogue.

    bash: source <(syncwall completion bash); zsh: the same, after compinit; fish: syncwall
    completion fish > ~/.config/fish/completions/syncwall.fish
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("SHELL", positional=True)]
    """Whose script: bash, zsh or fish."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.cli.commands import commands as every
        from syncwall.cli.commands import types_of
        from syncwall.cli.flags import flags_of

        commands = {command: flags_of(*types_of(command)) for command in every()}
        if self.shell == "fish":
            print("\n".join(_fish(commands)))
        elif self.shell == "zsh":
            print(f"#compdef syncwall\n{_answer(commands)}{_ZSH}", end="")
        else:
            print(f"{_answer(commands)}{_BASH}", end="")
        return 0


def _answer(commands: Commands) -> str:
    """The function, in the language of every POSIX shell, that knows what may come next."""
    verbs = list(dict.fromkeys(command.partition(" ")[0] for command in commands))
    parts = {verb: inside for verb in verbs if (inside := _parts(verb, commands))}
    named = [one for flags in commands.values() for one in flags if one.is_named]
    alone = sorted({name for one in named if _stands_alone(one) for name in _names(one)})
    return _ANSWER.format(
        verbs=" ".join(verbs),
        parts=_cases((f"1:{verb}", inside) for verb, inside in parts.items()),
        verbs_with_parts="|".join(parts),
        choices=_cases(_after_a_word(commands)),
        alone="|".join(alone),
        rest=_cases(_after_a_command(commands)),
    )


def _parts(verb: str, commands: Commands) -> list[str]:
    return [command.split()[1] for command in commands if command.startswith(f"{verb} ")]


def _names(flag: "Flag") -> list[str]:
    return list(dict.fromkeys((flag.short, flag.name)))


def _stands_alone(flag: "Flag") -> bool:
    """True if a flag needs no value: a switch, or --json."""
    return not flag.takes or flag.takes.startswith("[")


def _words(flag: "Flag") -> list[str]:
    """What may stand after a flag, or in the place of an argument."""
    from syncwall.catalogue import CatalogueKind, names

    kind = _CATALOGUE.get(flag.name)
    return names(CatalogueKind(kind)) if kind else list(flag.choices)


def _after_a_word(commands: Commands) -> Iterator[tuple[str, list[str]]]:
    """Command and last word, as a pattern, with what may follow them."""
    from syncwall.catalogue import CatalogueKind, names

    for command, flags in commands.items():
        for one in flags:
            for name in _names(one) if one.is_named else ():
                yield f"'{command}':{name}", _words(one)
    for word in commands["show"][0].choices:
        if word in list(CatalogueKind):
            yield f"show:{word}", names(CatalogueKind(word))


def _after_a_command(commands: Commands) -> Iterator[tuple[str, list[str]]]:
    """Command and start of a word: flags, or what the first argument may be; else files."""
    from syncwall.show.schema import VERBS

    for command, flags in commands.items():
        arguments = [one for one in flags if not one.is_named]
        names = [name for one in flags if one.is_named for name in _names(one)]
        yield f"'{command}':{'-' if arguments else ''}*", [*names, "--help", "--help-all"]
        yield f"'{command}':*", _words(arguments[0]) if arguments else []
    yield "schema:*", list(dict.fromkeys(" ".join(VERBS).split()))


def _cases(found: Iterable[tuple[str, list[str]]]) -> str:
    """Lines of a `case`, one for each list of words, with every pattern after which it comes."""
    patterns: dict[str, list[str]] = {}
    for pattern, words in found:
        if words:
            patterns.setdefault(" ".join(words), []).append(pattern)
    lines = (f"    {'|'.join(those)}) echo '{words}'; return;;" for words, those in patterns.items())
    return "\n".join(lines)


def _fish(commands: Commands) -> Iterator[str]:
    from syncwall.cli.commands import DOES

    yield "complete -c syncwall -f"
    for verb, does in DOES.items():
        yield f"complete -c syncwall -n __fish_use_subcommand -a {verb} -d {_quoted(does)}"
        parts = " ".join(_parts(verb, commands))
        if parts:
            seen = f"__fish_seen_subcommand_from {verb}; and not __fish_seen_subcommand_from {parts}"
            yield f"complete -c syncwall -n '{seen}' -a '{parts}'"
    for command, flags in commands.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        for one in flags:
            words = " ".join(_words(one))
            name = " ".join(f"-l {name[2:]}" for name in _names(one)) if one.is_named else ""
            value = f"-x -a '{words}'" if words else "-r -F" if one.takes in _FILES else "-x"
            taken = "" if _stands_alone(one) else value
            yield f"complete -c syncwall -n '{seen}' {name} {taken} -d {_quoted(one.text)}"


def _quoted(text: str) -> str:
    """A text for fish, which knows two escapes between single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
