"""The Predict page in a real browser."""

import json
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

import syncwall as sw
from syncwall.show import numbers
from syncwall.show.layout import run_words
from syncwall.show.numbers import duration
from syncwall.show.terms import meaning
from tests.web.browser.conftest import axe, fits
from tests.web.test_address import address, asked, fields_of, scalar

QUERY = "/?model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp"
QUERY += "&layout.global_batch=1024"
MOE = QUERY.replace("llama-3.1-70b", "deepseek-v3")


def own(nodes=64, **layout):
    stated = {"tp": 8, "shard": "fsdp", "global_batch": 1024, **layout}
    cluster = sw.cluster("dgx-h100", nodes=nodes)
    return sw.predict(sw.Run(model="llama-3.1-70b", cluster=cluster, layout=sw.Layout(**stated)))


def tile(page, name):
    return float(page.locator(f'[data-tile="{name}"]').get_attribute("data-value"))


def settled(page):
    """Wait until the numbers belong to the address."""
    page.locator("#answer:not(.stale)").wait_for()
    page.wait_for_load_state("networkidle")


def test_the_numbers_are_those_of_the_api(opened):
    page = opened(QUERY)
    prediction = own()
    assert tile(page, "step") == pytest.approx(prediction.step_s)
    assert tile(page, "mfu") == pytest.approx(prediction.mfu)
    assert tile(page, "memory") == pytest.approx(prediction.memory_bytes)
    assert page.locator("#verdict").inner_text() == prediction.verdict.text
    assert duration(prediction.step_s) in page.locator('[data-tile="step"]').inner_text()
    rows = page.locator("#ledger tr[data-cause]")
    shown = {
        rows.nth(i).get_attribute("data-cause"): float(rows.nth(i).get_attribute("data-value"))
        for i in range(rows.count())
    }
    for cause, seconds in shown.items():
        assert seconds == pytest.approx(float(prediction.ledger[cause]))
    assert sum(shown.values()) == pytest.approx(prediction.step_s, rel=0.01)


def test_a_change_updates_the_page_and_the_address_and_a_link_reproduces_it(opened):
    page = opened(QUERY)
    page.get_by_role("button", name="Twice the nodes").click()
    settled(page)
    assert tile(page, "step") == pytest.approx(own(nodes=128).step_s)
    again = opened(page.url[page.url.index("/?") :])
    assert tile(again, "step") == tile(page, "step")
    page.go_back()


@pytest.mark.alone
def test_a_change_is_shown_within_200_ms(opened):
    page = opened(QUERY)
    took = page.evaluate(
        """async () => {
          const times = [];
          for (let i = 0; i < 7; i += 1) {
            const before = performance.now();
            const old = document.querySelector('[data-tile="step"]');
            document.querySelector(`[aria-label="${i % 2 ? "Half" : "Twice"} the nodes"]`).click();
            while (document.contains(old)) await new Promise((done) => setTimeout(done, 2));
            times.push(performance.now() - before);
          }
          return times.sort((a, b) => a - b)[3];
        }"""
    )
    print(f"a change is shown after {took:.0f} ms (median)")
    assert took < 200


def test_a_proposal_applies_itself_and_keeps_its_promise(opened):
    page = opened(QUERY)
    button = page.locator(".proposals button").first
    promised = tile(page, "step") - float(button.get_attribute("data-gained"))
    button.click()
    settled(page)
    assert tile(page, "step") == pytest.approx(promised, rel=1e-6)
    assert "layout.micro_batch" not in page.url  # what was open stays open


def test_a_run_that_does_not_fit_says_what_would(opened):
    page = opened(MOE)
    assert page.locator("#verdict").inner_text().startswith("does not fit")
    assert "No single change" not in page.locator("#next").inner_text()
    page.locator("#remedy button").click()
    settled(page)
    assert "layout.ep=" in page.url
    assert tile(page, "step") < 20
    assert "fits" in page.locator('[data-tile="memory"]').inner_text()
    assert page.locator("#remedy").is_hidden()


def test_more_nodes_are_offered_where_no_layout_fits(opened):
    page = opened("/?model=llama-3.1-405b&cluster=dgx-h100&gpus=64&layout.tp=8&layout.global_batch=64")
    page.get_by_role("button", name=re.compile("16 nodes: .* a step")).click()
    settled(page)
    query = dict(parse_qsl(urlsplit(page.url).query))
    assert query["nodes"] == "16"
    assert "gpus" not in query
    assert "does not fit" not in page.locator('[data-tile="memory"]').inner_text()


def test_the_hosts_are_offered_beside_more_nodes(opened):
    page = opened("/?model=llama-3.1-70b&cluster=dgx-h100&nodes=1")
    assert page.locator("#remedy button").count() == 2
    page.locator("#remedy button", has_text="optimizer, gradients on the host").click()
    settled(page)
    query = dict(parse_qsl(urlsplit(page.url).query))
    assert query["layout.offload_optimizer"] == query["layout.offload_gradients"] == "true"
    assert "fits" in page.locator('[data-tile="memory"]').inner_text()
    assert "on each host" in page.locator("#memory-about").inner_text()
    run = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=1)
    moved = sw.predict(run.changed(offload_optimizer=True, offload_gradients=True))
    assert tile(page, "step") == pytest.approx(moved.step_s)


def test_gpus_of_an_address_stay_and_what_is_empty_is_open(opened):
    stated = QUERY.replace("nodes=64", "gpus=512").replace("&layout.shard=fsdp", "&layout.shard=")
    page = opened(stated + "&layout.micro_batch=")
    assert tile(page, "step") == pytest.approx(own(shard=None).step_s)
    assert page.get_by_label("Nodes", exact=True).input_value() == "64"
    assert "--gpus 512" in page.locator("#command").inner_text()
    assert page.locator('[name="layout.shard"]').input_value() == ""
    page.get_by_role("button", name="Twice the nodes").click()
    settled(page)
    query = dict(parse_qsl(urlsplit(page.url).query))
    assert query["gpus"] == "1024"
    assert not {"nodes", "layout.shard", "layout.micro_batch"} & set(query)
    assert tile(page, "step") == pytest.approx(own(nodes=128, shard=None).step_s)
    page.get_by_label("Nodes", exact=True).fill("64")
    settled(page)
    assert "gpus=" not in page.url
    assert tile(page, "step") == pytest.approx(own(shard=None).step_s)


def test_the_page_says_what_was_predicted_and_why(opened):
    page = opened(QUERY)
    prediction = own()
    assert page.locator("#what").inner_text() == run_words(prediction.run)
    for one in prediction.chosen:
        assert page.locator(f'[data-chosen="{one.field}"]').get_attribute("title") == one.why
    recompute = page.locator('[name="layout.recompute"]')
    assert recompute.get_attribute("title") == "the fastest that fits"
    assert recompute.locator("option").first.inner_text() == "open (whole layers)"


def test_addresses_are_read_and_written_by_the_rules_of_the_tests(opened):
    page = opened("/")
    texts = ["8", "1e3", ".5", "2.", "true", "false", "[tp, dp,pp]", "25 MiB", "fsdp", "2024-05"]
    read = "async (texts) => { const { scalar } = await import('/static/state.js');"
    assert page.evaluate(read + " return texts.map(scalar); }", texts) == [*map(scalar, texts)]
    page.evaluate(
        "async (run) => { const state = await import('/static/state.js');"
        " state.setRun(state.flattened(run)); }",
        fields := fields_of(own().run),
    )
    settled(page)
    said = page.evaluate("async () => (await import('/static/state.js')).run()")
    assert said == asked(address(fields))
    assert tile(page, "step") == pytest.approx(own().step_s, rel=1e-9)


def test_terms_say_what_they_mean_to_the_pointer_and_the_keyboard(opened):
    page = opened(QUERY)
    for place in ("#ledger", "#tiles", "#memory"):
        found = page.locator(f"{place} abbr")
        assert found.count() > 2
        for one in found.all():
            assert one.get_attribute("title") == meaning(one.inner_text())
    page.locator("#exports button").first.focus()
    page.locator("#ledger abbr").first.focus()
    page.keyboard.press("Tab")
    second = page.locator("#ledger abbr").nth(1)
    assert page.locator(".tip").inner_text() == second.get_attribute("title")
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()


def test_the_command_can_be_copied_and_breaks_between_its_flags(opened):
    page = opened(QUERY, narrow=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#command").get_by_role("button").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("syncwall predict --model llama-3.1-70b --cluster dgx-h100")
    flags = page.locator("#command code span")
    assert [flag.inner_text() for flag in flags.all()] == re.split(" (?=--)", copied)
    assert all(flag.bounding_box()["height"] < 30 for flag in flags.all())


def test_a_run_that_is_not_possible_has_no_numbers(opened):
    page = opened(QUERY)
    page.get_by_label("tp: tensor").fill("7")
    page.locator("#answer.refused").wait_for()
    assert page.locator("#tiles").is_hidden()
    assert page.locator("#verdict").is_visible()
    page.get_by_label("tp: tensor").fill("8")
    page.locator('[data-tile="step"]').wait_for()


def test_what_cannot_be_is_said_beside_its_field(opened):
    page = opened(QUERY)
    page.get_by_label("tp: tensor").fill("7")
    page.wait_for_selector('[name="layout.tp"][aria-invalid="true"]')
    beside = page.locator('#run [data-fault="layout.tp"]').first
    assert "tp 7 does not" in beside.inner_text()
    assert page.locator("#why li").count() > 1
    beside.get_by_role("button", name="tp 8").click()
    page.locator("#run .fault:not(:empty)").first.wait_for(state="detached")
    settled(page)
    assert tile(page, "step") == pytest.approx(own().step_s)


def test_a_misspelt_value_is_mended_by_a_click(opened):
    page = opened(QUERY.replace("layout.shard=fsdp", "layout.shard=fsp"))
    page.locator("#why").get_by_role("button", name="data-parallel sharding fsdp").click()
    settled(page)
    assert tile(page, "step") == pytest.approx(own().step_s)


def test_what_lags_is_dimmed(opened):
    """Proposals and the timeline come later than the numbers, and say so until they are new."""
    page = opened(QUERY)
    page.locator("#next:not(.stale) .proposals").wait_for()
    dimmed = page.evaluate(
        """async () => {
          const old = document.querySelector('[data-tile="step"]');
          document.querySelector('[aria-label="Twice the nodes"]').click();
          while (document.contains(old)) await new Promise((done) => setTimeout(done, 2));
          return ["next", "timeline"].map((id) => document.getElementById(id).className);
        }"""
    )
    assert all("stale" in one for one in dimmed)
    page.locator("#next:not(.stale)").wait_for()
    page.locator("#timeline:not(.stale)").wait_for()


def test_proposals_are_words_and_say_what_a_click_pins(opened):
    page = opened(QUERY)
    page.locator("#next:not(.stale) .proposals").wait_for()
    said = page.locator("#next .proposals").inner_text()
    assert "_" not in " ".join(page.locator("#next .proposals span").all_inner_texts())
    assert "pins " in said


def test_all_layouts_are_searched_beside_the_proposals_and_kept(opened):
    small = "/?model=llama-3.1-8b&cluster=dgx-h100&nodes=1&layout.tp=2&layout.global_batch=64"
    page = opened(small)
    page.locator("#next").get_by_role("button", name="Search all layouts").click()
    found = page.locator("#next [data-best]")
    found.wait_for(timeout=60_000)
    best_s = float(found.get_attribute("data-best"))
    assert f"Search all layouts: {duration(best_s)} a step" in found.inner_text()
    page.get_by_label("tp: tensor").fill("4")  # the question is the same
    settled(page)
    page.locator("#next:not(.stale) [data-best]").click()
    settled(page)
    assert tile(page, "step") == pytest.approx(best_s, rel=1e-9)
    page.locator("#next").get_by_role("link", name="see all of them").click()
    page.wait_for_selector("#best tr[data-rank='1']", timeout=5_000)  # it is not searched again


def test_a_configuration_can_be_pasted_and_the_link_holds_it(opened):
    from tests.web.test_predict import HF_CONFIG

    page = opened(QUERY)
    page.get_by_role("button", name="Paste my config or settings").click()
    page.get_by_label("Text to read").fill(json.dumps(HF_CONFIG))
    page.get_by_role("button", name="Use it").click()
    page.wait_for_url(re.compile("model=%7B"))
    settled(page)
    model = json.loads(dict(parse_qsl(urlsplit(page.url).query))["model"])
    assert model["layers"] == 16
    again = opened(page.url[page.url.index("/?") :])
    assert tile(again, "step") == tile(page, "step")


@pytest.mark.parametrize(
    ("button", "begins"),
    [
        ("Run file (YAML)", "model:"),
        ("JSON", "{"),
        ("Perfetto trace", '{"traceEvents"'),
        ("Report (HTML)", "<!doctype html>"),
    ],
)
def test_exports_are_downloaded(opened, button, begins, tmp_path):
    page = opened(QUERY)
    with page.expect_download() as caught:
        page.get_by_role("button", name=button, exact=True).click()
    caught.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_text().startswith(begins)


@pytest.mark.parametrize("name", ["duration", "gigabytes", "percent", "signed_percent"])
def test_formats_are_those_of_the_terminal(opened, name):
    page = opened("/api")
    values = [0.0123456, 0.9996, 1.0, 9.8449, 61.26, 123.46, 999.6, 1234.5]
    values += [-value for value in values] if "signed" in name else [8.6e5, 2.5e9]
    values += [0.0, 3.3e-7, 9.994e-4] if name == "duration" else []
    digits = {"percent": 1}.get(name)
    own = getattr(numbers, name)
    said = page.evaluate(
        "async ([name, values]) => { const format = await import('/static/format.js');"
        " return values.map((value) => format[name](value)); }",
        [re.sub("_(.)", lambda found: found[1].upper(), name), values],
    )
    for value, text in zip(values, said, strict=True):
        expected = own(value, digits) if digits else own(value)
        assert text.replace(",", "") == expected.replace(",", ""), value


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["1440 px", "390 px"])
def test_it_can_be_used_by_everybody(opened, narrow, dark):
    page = opened(MOE if dark else QUERY, narrow=narrow, dark=dark)
    fits(page)
    axe(page)


def test_it_can_be_used_by_keyboard(opened):
    page = opened(QUERY, narrow=True)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    toggle = page.locator(".run-line")
    toggle.focus()
    page.keyboard.press("Enter")
    assert page.get_by_label("tp: tensor").is_visible()
