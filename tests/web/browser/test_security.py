"""Text of a visitor is shown as text, and nothing inline ever runs."""

from urllib.parse import quote

EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def test_markup_in_names_is_shown_as_text(opened):
    page = opened(f"/?model={quote(EVIL)}&cluster={quote(EVIL)}&nodes=8")
    page.wait_for_selector("#verdict.bad")
    assert "<img src=x" in page.locator("#why").inner_text()
    assert page.locator("img[src=x]").count() == 0
    assert "broken" not in page.title()


def test_inline_script_does_not_run(served, chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(served)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.evaluate(
        """() => { const s = document.createElement("script");
                   s.textContent = "document.title='broken'"; document.body.append(s); }"""
    )
    page.wait_for_timeout(200)
    assert "broken" not in page.title()
    assert any("Content Security Policy" in text for text in refused)
    context.close()


def test_another_site_cannot_frame_or_ask(served, chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.goto("data:text/html,<title>elsewhere</title>")
    asked = page.evaluate(
        """(url) => fetch(url + "/api/predict", {method: "POST", body: "{}"})
                      .then(() => "read", () => "refused")""",
        served,
    )
    assert asked == "refused"
    context.close()
