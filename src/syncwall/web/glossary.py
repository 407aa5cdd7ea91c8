"""The words of the pages, and what each page answers, as HTML of the page `help`.

Holds `glossary` and `page_list`. The words are those of `show/terms.yaml`.
"""

from collections.abc import Mapping
from html import escape
from typing import Final

from syncwall.show.terms import Term, terms

_ANSWERS: Final = {
    "predict": "How fast will this run be, where does its time go, and what should change?",
    "program": "How fast will my own script be, without a layout that I must describe?",
    "explain": "What do my traces, logs and benchmarks say?",
    "wall": "On how many GPUs does it stop being worth more of them?",
    "step": "What happens in a step, worker by worker?",
    "fabric": "What does the network carry, and what if a part of it breaks?",
    "job": "When is the whole training done, and what does it cost?",
    "plan": "Which of all layouts is the fastest?",
    "accuracy": "How wrong were such predictions on published runs?",
    "catalogue": "Which numbers is all of it made of, and from where?",
    "findings": "What did recorded experiments show?",
    "live": "How is the run that trains now?",
    "api": "How does a program ask?",
}


def page_list(pages: Mapping[str, str]) -> str:
    """Every page with the question that it answers."""
    first = next(iter(pages))
    lines = (
        f'<li><a href="./{"" if name == first else name}" data-page="{name}">{escape(title)}</a>: '
        f"{escape(_ANSWERS[name])}</li>"
        for name, title in pages.items()
    )
    return f"<ul>{''.join(lines)}</ul>"


def glossary() -> str:
    """Every term with its meaning."""
    return f'<dl class="glossary">{"".join(map(_entry, terms()))}</dl>'


def _entry(one: Term) -> str:
    also = f' <span class="quiet">{escape(", ".join(one.also))}</span>' if one.also else ""
    formula = f"<br><code>{escape(one.formula)}</code>" if one.formula else ""
    elsewhere = "; ".join(f"{name}: {words}" for name, words in one.elsewhere.items())
    others = f'<br><span class="quiet">{escape(elsewhere)}</span>' if elsewhere else ""
    page = f'<br><span class="quiet">docs/{escape(one.page)}</span>' if one.page else ""
    return (
        f"<dt><b>{escape(one.name)}</b>{also}</dt>"
        f"<dd>{escape(one.meaning)}{formula}{others}{page}</dd>"
    )
