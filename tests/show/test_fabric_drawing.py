"""The picture of a fabric: readable for any number of GPUs, with nothing on top of another."""

import re
import xml.etree.ElementTree as ET

import pytest

from syncwall.cli import main
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.options import sized
from syncwall.plan.fabric.question import Wiring
from syncwall.show.draw.fabric import fabric_drawing
from syncwall.show.draw.svg import SMALL_FONT, text_width

SVG = "{http://www.w3.org/2000/svg}"
SIZES = [8, 16, 64, 520, 1_000, 2_049, 24_576, 250_000, 1_000_000]


def pictures():
    for radix in (64, 160):
        for kind in KINDS:
            for gpus in SIZES:
                one = sized(kind, Wiring(8, 8, 50e9, (radix,) * 3), [gpus]).at(0)
                if one.possible:
                    yield pytest.param(one, id=f"{kind}-{gpus}-{radix}")


def boxes(root, kind):
    for element in root.iter(f"{SVG}rect"):
        if re.search(kind, element.get("class", "")) and element.get("x"):
            yield tuple(number(element, key) for key in ("x", "y", "width", "height"))


def number(element, key):
    text = element.get(key)
    assert text is not None, f"{element.tag} without {key}"
    return float(text)


def overlap(first, second):
    (x1, y1, w1, h1), (x2, y2, w2, h2) = first, second
    return x1 < x2 + w2 - 0.5 and x2 < x1 + w1 - 0.5 and y1 < y2 + h2 and y2 < y1 + h1


@pytest.mark.parametrize("one", list(pictures()))
def test_pictures_are_whole_and_small(one):
    text = fabric_drawing(one).file()
    root = ET.fromstring(text)
    width, height = number(root, "width"), number(root, "height")
    assert len(text) < 150_000
    assert f"{one.gpus:,} GPUs" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    drawn = list(boxes(root, r"^f[0-7]$|f5 pale"))
    assert drawn
    for x, y, wide, high in drawn:
        assert x >= 0
        assert x + wide <= width
        assert y + high <= height
    for place, box in enumerate(drawn):
        assert not any(overlap(box, other) for other in drawn[place + 1 :])


@pytest.mark.parametrize("one", list(pictures()))
def test_words_fit_where_they_stand(one):
    root = ET.fromstring(fabric_drawing(one).file())
    panels = [(x, x + wide) for x, _, wide, _ in boxes(root, "^panel$")]
    for element in root.iter(f"{SVG}text"):
        words, x = element.text or "", number(element, "x")
        small = "small" in element.get("class", "")
        if element.get("text-anchor") == "middle" and small:
            half = text_width(words, SMALL_FONT) / 2
            assert any(left <= x - half + 1 and x + half - 1 <= right for left, right in panels)
            assert "…" not in words
        elif x < 20 and number(element, "y") > 60:
            assert x + text_width(words, SMALL_FONT if small else 12) < panels[0][0] + 12


def test_counts_of_the_picture_are_those_of_the_fabric():
    text = fabric_drawing(sized("rail-optimised", Wiring(8, 8, 50e9), [8 * 2048]).at(0)).file()
    for words in ("512 leaf", "512 spine", "256 core", "pod 16: 32 spine · 32 leaf", "128 nodes"):
        assert words in text


def test_the_verb_writes_it(tmp_path, capsys):
    path = tmp_path / "fabric.svg"
    assert main(["plan", "fabric", "--gpus", "1024", "--drawing", str(path)]) == 0
    assert ET.parse(path).getroot().tag == f"{SVG}svg"
