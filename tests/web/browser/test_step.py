"""The page "How a step works" in a real browser."""

from typing import Any

import pytest

from syncwall.answer import predict
from syncwall.cause import Cause
from syncwall.web.answers.step import team_step
from syncwall.web.answers.step_collective import pipeline
from syncwall.web.questions import AskedPipeline, AskedRun, AskedStep
from tests.web.browser.conftest import axe, fits

RUN: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": "dgx-h100",
    "nodes": 8,
    "layout": {"shard": "ddp", "global_batch": 128},
}
PAGE = "/step?model=llama-3.1-8b&cluster=dgx-h100&nodes=8&layout.shard=ddp"
PAGE += "&layout.global_batch=128"


def number(page, selector, name="data-value"):
    page.wait_for_selector(f"{selector}[{name}]", state="attached")
    return float(page.get_attribute(selector, name))


def test_a_step_of_workers(opened):
    page = opened(f"{PAGE}&step.slow=2&step.worker=2&step.workers=4")
    expected = team_step(AskedStep.model_validate({"run": RUN, "slow": 2, "worker": 2, "workers": 4}))
    assert number(page, "#verdict") == predict(AskedRun.model_validate(RUN).run()).step_s
    assert number(page, "#verdict", "data-lost") == expected["lost_s"]
    assert page.text_content("#verdict") == expected["verdict"]
    waited = page.locator('[data-share="worker_s"]')
    found = [float(waited.nth(n).get_attribute("data-value")) for n in range(4)]
    assert found == [share["worker_s"] for share in expected["shares"]]
    bars = "document.querySelectorAll('.lanes [data-idle]')"
    drawn = page.evaluate(f"[...{bars}].map((bar) => Number(bar.dataset.idle))")
    idle = [run for kind in expected["idle_of"] for run in expected["idle"][kind]]
    assert sum(drawn) == pytest.approx(sum(run["end_s"] - run["start_s"] for run in idle))

    page.locator("#phases button").nth(3).click()  # the barrier: all but the slow one wait
    states = page.locator(".scene [data-worker]")
    assert [states.nth(n).get_attribute("data-state") for n in range(4)] == [
        "waits",
        "backward",
        "waits",
        "waits",
    ]
    assert "for worker 2" in states.nth(0).text_content()
    page.wait_for_url("**step.at=*")
    again = page.text_content("#says")
    page.reload()
    page.wait_for_selector(".scene")
    assert page.text_content("#says") == again


def test_stepping_with_keys(opened):
    page = opened(PAGE)
    assert page.text_content("#says").startswith("Data partitioning")
    assert page.text_content("#told") == ""
    page.keyboard.press("ArrowRight")
    assert page.text_content("#says").startswith("Forward")
    assert page.text_content("#told") == page.text_content("#says")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert "bucket" in page.text_content("#says")
    page.keyboard.press("ArrowLeft")
    page.focus("#scrub")
    page.keyboard.press("End")
    assert page.get_attribute("#scrub", "aria-valuetext").endswith(page.text_content("#clock")[-6:])
    assert page.text_content("#says").startswith("The whole step")


@pytest.mark.parametrize("calm", [False, True])
def test_playing(opened, calm):
    page = opened(PAGE, calm=calm)
    first = number(page, "#clock")
    page.wait_for_timeout(300)
    assert number(page, "#clock") == first  # nothing moves before the reader wants it
    page.select_option("#speed", "4")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    assert "Pause" in page.text_content("#play")
    page.wait_for_timeout(700)
    page.keyboard.press("Space")
    assert "Play" in page.text_content("#play")
    moved = number(page, "#clock")
    assert moved > first
    events = team_step(AskedStep.model_validate({"run": RUN}))["events"]
    stands = any(moved == pytest.approx(event["at_s"]) for event in events)
    assert stands == calm  # jumps, or glides


def test_the_slider_and_the_modes(opened):
    page = opened(PAGE)
    page.locator('[name="step.slow"]').fill("1.5")
    page.wait_for_selector('#verdict:has-text("1.5 times slower")')
    assert "step.slow=1.5" in page.url
    page.click('[data-key="step.mode"] [data-choice="fsdp"]')
    page.wait_for_selector('#why:has-text("fsdp")')
    assert "step.mode=fsdp" in page.url
    assert page.locator(".lanes .weights").count() > 10
    page.go_back()
    page.wait_for_selector('#why:has-text("ddp")')


def test_ring_and_tree(opened):
    page = opened(PAGE)
    page.focus("#tab-team")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('#verdict:has-text("NCCL is expected to take")')
    assert page.get_attribute("#tab-collective", "aria-selected") == "true"
    assert page.text_content("#says").startswith("Step 1 of 10, reduce-scatter")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.text_content("#says").startswith("Step 2 of 10")
    page.click('[data-choice="tree"]')
    assert page.text_content("#says").startswith("Step 1 of 7")


def test_a_pipeline(opened):
    page = opened(f"{PAGE}&layout.pp=4&step.tab=pipeline")
    asked = {"run": {**RUN, "layout": {**RUN["layout"], "pp": 4}}}
    expected = pipeline(AskedPipeline.model_validate(asked))
    for stage, bubble in enumerate(expected["bubble_s"]):
        assert number(page, f'[data-bubble="{stage + 1}"]') == bubble
    assert page.text_content("#verdict") == expected["verdict"]
    passes = 4 * expected["drawn"] * expected["virtual"]
    assert page.locator(".lanes .forward").count() == passes


@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        ({"schedule": "interleaved", "virtual_stages": 2}, {"forward", "backward"}),
        ({"schedule": "zero-bubble"}, {"forward", "input", "weight"}),
        ({"schedule": "dualpipe"}, {"forward", "backward", "input", "weight"}),
    ],
    ids=["interleaved", "zero-bubble", "dualpipe"],
)
def test_the_run_s_own_schedule_is_played(opened, layout, kinds):
    """The headline is the run's own bubble, and what is drawn is its own order."""
    stated = {**RUN["layout"], "pp": 4, **layout}
    expected = pipeline(AskedPipeline.model_validate({"run": {**RUN, "layout": stated}}))
    more = "".join(f"&layout.{key}={value}" for key, value in {"pp": 4, **layout}.items())
    page = opened(f"{PAGE}{more}&step.tab=pipeline")
    assert page.text_content("#verdict") == expected["verdict"]
    own_s = predict(AskedRun.model_validate({**RUN, "layout": stated}).run()).ledger[Cause.BUBBLE]
    assert expected["run"]["bubble_s"] == own_s
    assert "as drawn" not in expected["verdict"]
    slots = expected["slots"]
    for kind in ("forward", "backward", "input", "weight"):
        drawn = page.locator(f".lanes rect.{kind}").count()
        assert drawn == sum(which == kind for _, which, *_ in slots)
        assert (drawn > 0) == (kind in kinds)
        assert page.locator(f"#legend .key.{kind}:not(.paler)").count() == (kind in kinds)
    states = page.locator(".scene [data-stage]")
    first = [states.nth(n).get_attribute("data-state") for n in range(4)]
    both_ends = layout["schedule"] == "dualpipe"
    assert first == ["forward", "waits", "waits", "forward" if both_ends else "waits"]
    page.locator("#phases button").nth(1).click()
    assert page.text_content("#says").startswith("Forward and backward in turn")
    fits(page)
    axe(page)


def test_sharded_weights_are_gathered_and_gradients_scattered(opened):
    page = opened(f"{PAGE}&step.mode=fsdp")
    names = [one.inner_text() for one in page.locator("#phases b").all()]
    assert names[3] == "4 Reduce-scatter barrier"
    said: list[str] = []
    for _ in range(200):
        page.keyboard.press("ArrowRight")
        if said and page.text_content("#says") == said[-1]:
            break
        said.append(page.text_content("#says") or "")
    told = " ".join(said)
    assert "are gathered from all workers" in told
    assert "reduce-scatter" in told
    assert "its own shard" in told
    assert "all-reduce" not in told.lower()


def test_with_a_slow_worker_the_parts_add_up_to_the_step_that_is_said(opened):
    page = opened(f"{PAGE}&step.slow=2&step.worker=2")
    text = page.locator("#details p").inner_text()
    parts, whole = text.removeprefix("The step: ").rstrip(".").split(" = ")
    seconds = [_seconds(" ".join(part.split()[-2:])) for part in parts.split(" + ")]
    assert sum(seconds) == pytest.approx(_seconds(whole), rel=5e-3)
    assert "waiting for the slow worker" in parts
    assert _seconds(whole) > 1.2 * number(page, "#verdict")


def _seconds(said):
    value, unit = said.replace("−", "-").split()
    return float(value.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "min": 60}[unit]


def test_ranks_that_share_a_sequence_add_up_their_gradients(opened):
    """Context parallel: one worker is several ranks, which hold the same weights."""
    page = opened(f"{PAGE}&layout.cp=2&step.mode=fsdp")
    assert "each is 2 GPUs" in page.locator("#notes").inner_text()
    page.locator("#phases button").nth(1).click()
    forward = "each of 2 context-parallel ranks has 4,096 tokens of each sequence"
    asked = {**RUN, "layout": {**RUN["layout"], "cp": 2}}
    told = [
        one["text"] for one in team_step(AskedStep.model_validate({"run": asked, "mode": "fsdp"}))["events"]
    ]
    assert page.text_content("#says") in told
    assert any(forward in text for text in told)
    page.locator("#phases button").nth(3).click()
    assert "over all 64 ranks with the same weights (dp 32 × cp 2)" in " ".join(told)
    page.click("#tab-collective")
    page.wait_for_selector('#verdict:has-text("over 64 ranks")')


def test_one_worker_of_ranks_that_share_a_sequence_still_exchanges(opened):
    page = opened(f"{PAGE}&layout.cp=8&layout.tp=8&step.mode=fsdp")
    assert "whose 8 ranks share every sequence" in page.text_content("#verdict")
    assert "nobody" not in page.text_content("#verdict")
    assert page.locator(".lanes .gradients").count() > 0
    page.locator("#phases button").nth(4).click()
    assert "every rank updates its own shard" in page.text_content("#says")


def test_what_cannot_be_is_said(opened):
    page = opened(f"{PAGE}&layout.tp=7")
    page.wait_for_selector("#verdict.bad")
    assert "tp 7 does not divide 32 attention heads" in page.text_content("#why")
    assert page.is_hidden("#scene")
    page.fill('[name="layout.tp"]', "8")
    page.wait_for_selector("#scene svg")
    assert page.is_visible("#player")


@pytest.mark.parametrize("narrow", [True, False])
def test_it_fits_and_is_accessible(opened, narrow):
    page = opened(f"{PAGE}&step.slow=1.5&step.workers=8", narrow=narrow, dark=not narrow)
    for tab in ("team", "pipeline", "collective"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f'#answer:not(.stale) #film[data-shown="{tab}"]')
        page.wait_for_load_state("networkidle")
        fits(page)
        axe(page)
        page.emulate_media(color_scheme="light" if not narrow else "dark")
