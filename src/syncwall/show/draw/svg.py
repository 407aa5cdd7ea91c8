"""A drawing as SVG text; colours come from `chart.css`, text of files is escaped here.

Holds `Drawing`, `shortened`, `stroked`, `text_width` and `style`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

WIDTH: Final = 480.0
"""Of every chart: shown at this size on a screen, and not too small on a phone."""
FONT: Final = 12.0
SMALL_FONT: Final = 10.5
COLOURS: Final = 8
"""How many different ones `chart.css` has; `colour` counts through them."""
_LETTER: Final = 0.58
"""Mean width of a letter over the size of the font."""


@cache
def style() -> str:
    """The rules of `chart.css`, with light colours first for viewers that know no variables."""
    rules = files("syncwall.show.draw").joinpath("chart.css").read_text(encoding="utf-8").strip()
    light = dict(re.findall(r"(--\w+): (#\w+);", rules.partition("@media")[0]))

    def twice(found: re.Match[str]) -> str:
        return f"{found[1]}: {light[found[2]]}; {found[0]}"

    return re.sub(r"([\w-]+): var\((--\w+)\)", twice, rules)


def text_width(words: str, size: float = FONT) -> float:
    """About how wide `words` are."""
    return len(words) * _LETTER * size


def shortened(words: str, width: float, size: float = FONT) -> str:
    """As much of `words` as fits into `width`."""
    most = max(2, int(width / (_LETTER * size)))
    return words if len(words) <= most else words[: most - 1] + "…"


@dataclass
class Drawing:
    """A picture that grows by calls; y counts downwards."""

    label: str
    """What it shows, for those who cannot see it."""
    height: float = 0.0
    width: float = WIDTH
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, kind: str = "", anchor: str = "start",
        turned: bool = False,
    ) -> None:  # fmt: skip
        """Words with their baseline at `y`; `turned` to read upwards."""
        turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        self._add(
            f'<text x="{_n(x)}" y="{_n(y)}" class="{kind}" text-anchor="{anchor}"{turn}>'
            f"{escape(words)}</text>"
        )

    def line(
        self, start: tuple[float, float], end: tuple[float, float], kind: str,
        stroke: str = "", title: str = "",
    ) -> None:  # fmt: skip
        """A straight line; `stroke` are attributes beside its kind, as `stroked` gives them."""
        (x1, y1), (x2, y2) = start, end
        ends = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
        self._add(_titled("line", f'{ends} class="{kind}"{stroke}', title))

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, title: str = ""
    ) -> None:
        """A box; `title` appears when somebody points at it."""
        box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0))}" height="{_n(max(height, 0))}"'
        self._add(_titled("rect", f'{box} class="{kind}"', title))

    def dot(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A disc."""
        self._add(
            _titled("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="{kind}"', title)
        )

    def diamond(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A square that stands on a corner."""
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        self.shape(corners, kind, title)

    def shape(self, corners: list[tuple[float, float]], kind: str, title: str = "") -> None:
        """A closed shape."""
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners)
        self._add(_titled("polygon", f'points="{points}" class="{kind}"', title))

    def curve(
        self, points: list[tuple[float, float]], kind: str, stroke: str = "", title: str = ""
    ) -> None:
        """A line through `points`; `stroke` as of `line`."""
        joined = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(_titled("polyline", f'points="{joined}" class="{kind}"{stroke}', title))

    @contextmanager
    def group(self, kind: str, name: str) -> Iterator[None]:
        """What is drawn within belongs together: it is `name`, one of a `kind`."""
        self._add(f'<g data-kind="{escape(kind)}" data-name="{escape(name)}">')
        yield
        self._add("</g>")

    def markup(self) -> str:
        """The element, for a page that has the style."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} '
            f'{_n(self.height)}" width="{_n(self.width)}" height="{_n(self.height)}" role="img" '
            f'aria-label="{escape(self.label)}">' + "".join(self.parts) + "</svg>"
        )

    def file(self) -> str:
        """A file of its own, with the style and a ground."""
        head, rest = self.markup().split(">", 1)
        ground = '<rect width="100%" height="100%" rx="6" class="ground"/>'
        return f"{head}>\n<style>\n{style()}\n</style>\n{ground}\n{rest}\n"

    def _add(self, part: str) -> None:
        self.parts.append(part)


def stroked(width: float, opacity: float = 1.0, colour: str = "") -> str:
    """Attributes of a line with a width of its own, and a colour that is not its kind's."""
    own = f' stroke="{colour}"' if colour else ""
    return f'{own} stroke-width="{_n(width)}" stroke-opacity="{opacity:g}" fill="none"'


def _titled(kind: str, attributes: str, title: str) -> str:
    if not title:
        return f"<{kind} {attributes}/>"
    return f"<{kind} {attributes}><title>{escape(title)}</title></{kind}>"


def _n(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
