"""The first minute: what this is, examples, pickers, and what a visitor brings along."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from syncwall.describe.settings import read_settings
from syncwall.describe.settings.formats import title_of
from syncwall.show.terms import meaning
from tests.conftest import sampled
from tests.web.browser.conftest import axe, fits
from tests.web.browser.test_predict import settled, tile
from tests.web.test_predict import HF_CONFIG

SETTINGS = sorted((Path(__file__).parents[3] / "examples" / "settings").iterdir())


def query(page):
    return dict(parse_qsl(urlsplit(page.url).query))


def test_the_door_says_what_this_is_and_leads_on(opened):
    page = opened("/")
    door = page.locator("#door")
    assert "How fast will a training run on many GPUs be" in door.inner_text()
    door.get_by_role("link", name=re.compile("documentation")).click()
    page.wait_for_selector(".glossary")
    assert meaning("exposed TP") in page.locator(".glossary").inner_text()
    fits(page)
    axe(page)


@pytest.mark.parametrize(
    ("words", "model", "gpus"),
    [
        ("Llama 70B on 512 H100", "llama-3.1-70b", 512),
        ("DeepSeek-V3 on 2,048 H800", "deepseek-v3", 2048),
        ("Llama 8B on one node of 8 GPUs", "llama-3.1-8b", 8),
    ],
)
def test_an_example_is_a_click_away_and_fits(opened, words, model, gpus):
    page = opened("/?model=gpt2&cluster=laptop&layout.global_batch=8")
    button = page.get_by_role("button", name=words)
    button.click()
    settled(page)
    assert query(page)["model"] == model
    assert f"on {gpus:,} ×" in page.locator("#what").inner_text()
    assert "fits" in page.locator('[data-tile="memory"]').inner_text()
    assert button.get_attribute("aria-pressed") == "true"


def test_all_models_are_listed_and_found_by_family_size_and_hub_id(opened):
    page = opened("/")
    model = page.get_by_role("combobox", name="Model")
    model.click()
    options = page.locator(".picker-list [role=option]")
    assert options.count() > 100
    page.keyboard.type("qwen 72")
    found = [one.inner_text().split("\n")[0] for one in options.all()]
    assert found == ["Qwen2.5 72B", "Qwen2.5-VL 72B"]
    model.fill("meta-llama/Meta-Llama-3.1-405B-Instruct")
    page.keyboard.press("Enter")
    settled(page)
    assert query(page)["model"] == "llama-3.1-405b"
    model.click()
    page.keyboard.press("ArrowDown")
    active = model.get_attribute("aria-activedescendant")
    assert page.locator(f'[id="{active}"]').is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".picker-popup").first.is_visible()


def test_clusters_are_found_by_their_device(opened):
    page = opened("/")
    page.get_by_role("combobox", name="Cluster").click()
    page.keyboard.type("b200 dgx")
    page.locator(".picker-list [role=option]:visible").first.click()
    settled(page)
    assert query(page)["cluster"] == "dgx-b200"
    assert page.get_by_role("combobox", name="Cluster").input_value() == "dgx-b200"


def test_a_config_is_pasted_or_dropped_inside_the_picker(opened):
    page = opened("/")
    page.get_by_role("combobox", name="Model").click()
    page.get_by_role("button", name=re.compile("paste or drop its config.json")).click()
    assert page.locator("#paste").is_visible()
    page.keyboard.press("Escape")
    file = page.evaluate_handle(
        """(text) => { const moved = new DataTransfer();
        moved.items.add(new File([text], "config.json")); return moved; }""",
        json.dumps(HF_CONFIG),
    )
    page.locator(".picker").first.dispatch_event("drop", {"dataTransfer": file})
    page.locator('#paste [data-said="Recognised"]').wait_for()
    assert "Hugging Face config.json" in page.locator("#paste-said").inner_text()
    page.get_by_role("button", name="Use it").click()
    page.wait_for_url(re.compile("model=%7B"))
    settled(page)
    assert query(page)["cluster"] == "dgx-h100"
    assert tile(page, "step") > 0


@pytest.mark.parametrize("file", sampled(SETTINGS, 2), ids=lambda file: file.name)
def test_the_paste_box_takes_what_from_takes(opened, file):
    page = opened("/")
    page.get_by_role("button", name="Paste mine").click()
    page.get_by_label("Text to read").fill(file.read_text())
    said = page.locator("#paste-said")
    said.locator('[data-said="Recognised"]').wait_for()
    found = read_settings(file)
    assert title_of(found.format) in said.inner_text()
    assert "cluster dgx-h100" in said.locator('[data-said="Kept from this page"]').inner_text()
    page.get_by_role("button", name="Use it").click()
    page.wait_for_url(re.compile("software.framework"))
    settled(page)
    shown = query(page)
    for key in ("tp", "pp", "micro_batch"):
        if key in found.layout:
            assert shown[f"layout.{key}"] == str(found.layout[key])
    assert tile(page, "step") > 0


def test_what_is_wrong_with_a_pasted_text_is_a_line_each(opened):
    page = opened("/")
    page.get_by_role("button", name="Paste mine").click()
    text = "model: llama-3.1-8b\ncluster: dgx-h100\nnodse: 2\nlayot: {}\n"
    page.get_by_label("Text to read").fill(text)
    page.locator("#paste-said li").first.wait_for()
    lines = [one.inner_text() for one in page.locator("#paste-said li").all()]
    assert len(lines) == 2
    assert 'did you mean "nodes"' in " ".join(lines)


def test_labels_say_what_they_mean(opened):
    page = opened("/")
    for label, term in (("tp: tensor", "tp"), ("Micro batch", "micro batch")):
        control = page.get_by_role("spinbutton", name=label)
        assert control.get_attribute("aria-description") == meaning(term)
        shown = page.locator("#run .field .term", has_text=label)
        assert shown.get_attribute("title") == meaning(term)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["1440 px", "390 px"])
def test_pickers_and_the_paste_box_can_be_used_by_everybody(opened, narrow, dark):
    page = opened("/", narrow=narrow, dark=dark)
    if narrow:
        page.locator(".run-line").click()
    page.get_by_role("combobox", name="Model").click()
    fits(page)
    axe(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Paste mine").click()
    page.get_by_label("Text to read").fill(SETTINGS[2].read_text())
    page.locator('#paste-said [data-said="Taken"]').wait_for()
    fits(page)
    axe(page)


def test_from_the_door_to_what_to_change_takes_six_actions(opened):
    """A first visit: my own config, my own cluster, and the change that helps most."""
    page = opened("/")
    actions = 0

    def act(done):
        nonlocal actions
        actions += 1
        done()

    act(page.get_by_role("button", name="Paste mine").click)
    act(lambda: page.get_by_label("Text to read").fill(json.dumps(HF_CONFIG)))
    act(page.get_by_role("button", name="Use it").click)
    page.locator("#paste").wait_for(state="hidden")  # nobody reaches what is behind a dialog
    act(lambda: page.get_by_role("combobox", name="Cluster").fill("dgx-b200"))
    act(lambda: page.keyboard.press("Enter"))
    settled(page)
    assert query(page)["cluster"] == "dgx-b200"
    assert json.loads(query(page)["model"])["layers"] == HF_CONFIG["num_hidden_layers"]
    page.locator("#next:not(.stale) .proposals button").first.wait_for()
    before_s = tile(page, "step")
    act(page.locator("#next .proposals button").first.click)
    settled(page)
    assert tile(page, "step") < before_s
    assert actions <= 6
