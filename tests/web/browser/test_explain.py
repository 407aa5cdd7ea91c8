"""The Explain page: files are chosen or dropped, read by the server, and shown as an article."""

from pathlib import Path

from tests.web.browser.conftest import axe, fits, serving, until

FILES = Path(__file__).parents[3] / "examples" / "explain"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.10 GiB of which 1.25 GiB is free. Of the allocated memory 70.10 GiB is allocated by PyTorch, and "
    "6.50 GiB is reserved by PyTorch but unallocated."
)
TRACES = sorted((FILES / "traces").glob("*.json"))


def test_traces_become_a_verdict_with_pictures(opened):
    page = opened("/explain")
    page.locator("#files").set_input_files(TRACES)
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("article svg")
    assert "slow worker: rank 1" in page.locator("article").inner_text()
    assert page.locator("article svg").count() == 3
    assert "syncwall explain rank0.json rank1.json" in page.locator(".command").inner_text()
    axe(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a page").click()
    assert "slow worker" in Path(download.value.path()).read_text(encoding="utf-8")


def test_another_day_is_compared_with(opened):
    page = opened("/explain", narrow=True, dark=True)
    page.locator("#files").set_input_files(TRACES[1])
    page.locator("#against").set_input_files(TRACES[0])
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("article table")
    assert "against" in page.locator("article").inner_text()
    fits(page)
    axe(page)


def test_what_is_no_file_of_a_run_is_refused_in_words(opened):
    page = opened("/explain")
    page.get_by_role("button", name="Explain").click()
    until(page, "document.getElementById('said').textContent === 'Choose files or paste text first.'")
    page.locator("#files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"nothing"})
    page.get_by_role("button", name="Explain").click()
    until(page, "document.getElementById('said').textContent.includes('a.txt')")
    assert page.locator("article").count() == 0


def test_pasted_text_is_read_as_on_standard_input(opened):
    page = opened("/explain")
    page.locator("#text").fill(OUT_OF_MEMORY)
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("article")
    assert "ran out of GPU memory: 2.00 GiB more did not fit" in page.locator("article").inner_text()
    assert page.locator("#said").inner_text() == "Something is wrong."
    assert page.locator(".command").inner_text().startswith("syncwall explain -")
    axe(page)


def test_the_folder_of_the_server_can_be_chosen_from(chromium):
    with serving("--files", str(FILES)) as address:
        page = chromium.new_page()
        page.goto(f"{address}/explain")
        page.locator("#name").select_option("nccl.log")
        page.get_by_role("button", name="Explain").click()
        page.wait_for_selector("article")
        assert "NCCL_IB_DISABLE" in page.locator("article").inner_text()
        page.close()
