"""Writes docs/reference/glossary.md from `show/terms.yaml`: `python -m bench.glossary`.

Holds `PAGE` and `glossary`, its text.
"""

import re
from pathlib import Path

from syncwall.show.words.terms import Term, terms

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "glossary.md"
HEAD = """# Glossary

The words of syncwall's screens, pages and documentation, and what others call the same. On a
terminal `syncwall show term NAME` says what one of them means; in pages it appears when you point
at it. This page is made of `src/syncwall/show/terms.yaml` by `python -m bench.glossary`.
"""

_NAMES = re.compile(r"--[\w-]+|\.?\w+\(\)|\w+_\w+(=\w+)?|\w+(\.\w+)+(\(\))?|\w+::\w+")
"""Flags, functions and variables."""


def glossary() -> str:
    """The page."""
    return "\n".join([HEAD, *map(_entry, terms())])


def _entry(term: Term) -> str:
    lines = [
        f"## {term.name}\n",
        f"{term.meaning}\n",
        f"- Also: {', '.join(term.also)}" if term.also else "",
        f"- Formula: {term.formula}" if term.formula else "",
        f"- Unit: {term.unit}" if term.unit else "",
        *(f"- {who}: {_with_code(words)}" for who, words in term.elsewhere.items()),
        f"- [Read on](../{term.page})\n",
    ]
    return "\n".join(line for line in lines if line)


def _with_code(words: str) -> str:
    return _NAMES.sub(r"`\g<0>`", words)


if __name__ == "__main__":
    PAGE.write_text(glossary(), encoding="utf-8")
