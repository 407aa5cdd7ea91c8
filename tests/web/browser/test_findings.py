"""The Findings page: a list, and articles with their drawings."""

from syncwall.web.answers.catalogue import listed_findings, shown_finding
from tests.web.browser.conftest import axe, fits, until


def test_the_list_leads_to_an_article(opened):
    page = opened("/findings")
    cards = page.locator("[data-finding]")
    cards.first.wait_for()
    assert [card.get_attribute("data-finding") for card in cards.all()] == [
        one["id"] for one in listed_findings(())["findings"]
    ]
    axe(page)
    page.locator("[data-finding='slow-links'] a").press("Enter")
    page.wait_for_selector(".finding svg")
    assert "findings.id=slow-links" in page.url
    made = shown_finding((), "slow-links")
    assert page.locator("#title").inner_text() == made["title"]
    assert page.locator(".finding .lead").first.inner_text() == made["says"][0]
    assert page.locator(".finding figure svg").count() == made["html"].count("<svg")
    first = page.locator(".finding table").first.locator("tbody tr").first.locator("td")
    assert all(f">{cell.inner_text()}</td>" in made["html"] for cell in first.all())
    page.locator(".finding nav a", has_text="Set-up").click()
    until(page, "document.getElementById('set-up').getBoundingClientRect().top < innerHeight")
    assert "findings.id=slow-links#set-up" in page.url
    page.get_by_text("all findings").click()
    cards.first.wait_for()


def test_the_conclusion_comes_first(opened):
    """In the list before the question, in an article on the first screen, with its notes next."""
    page = opened("/findings")
    card = page.locator("[data-finding='slow-links']")
    says, asked = card.locator(".says li").first, card.locator("p", has_text="Asked:")
    assert says.inner_text() == shown_finding((), "slow-links")["says"][0]
    assert says.bounding_box()["y"] < asked.bounding_box()["y"]
    card.locator("a").click()
    lead = page.locator(".finding .lead").first
    lead.wait_for()
    assert lead.bounding_box()["y"] < 450
    headings = [one.inner_text() for one in page.locator(".finding h2").all()]
    told = ["Comparison", "Notes", "What the model says", "What stays unexplained"]
    assert headings[:5] == [*told, "Training steps"]
    assert headings[-1] == "Set-up"


def test_an_article_fits_a_phone_in_the_dark(opened):
    page = opened("/findings?findings.id=four-workers", narrow=True, dark=True)
    page.wait_for_selector(".finding svg")
    fits(page)
    axe(page)


def test_an_unknown_name_is_said(opened):
    page = opened("/findings?findings.id=../../x")
    until(page, "document.getElementById('about').textContent.includes('no finding')")
