"""The page in a real browser: a Chromium without a window, where one is installed."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reports import PIXEL, every_state, hostile, report, result

from pytest_customop.report.formats import render

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
if not (BROWSER and DRIVER):
    pytest.skip("needs chromium and chromedriver", allow_module_level=True)

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

# The smallest contrast of any visible text with what is behind it, and the text.
CONTRAST = """
const light = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const clear = (color) => color === "transparent" || /^rgba.*, 0\\)$/.test(color);
const behind = (one) => {
  for (; one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (!clear(color)) return color;
  }
};
let worst = [99, ""];
let texts = 0;
for (const one of document.body.querySelectorAll("*")) {
  const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !one.checkVisibility() || one.tagName === "SCRIPT") continue;
  texts++;
  const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < worst[0]) worst = [ratio, `${one.className} ${one.textContent.slice(0, 40)}`];
}
return [...worst, texts];
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Opened:
    """A page that the browser has opened from a file."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        self.url = path.as_uri()

    def open(self, fragment: str = "", width: int = 1280, dark: bool = False) -> None:
        """Open it, in a window of this width."""
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", features=media)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.browser.get("about:blank")
        self.browser.get(self.url + fragment)

    def command(self, name: str, **arguments: Any) -> None:
        self.browser.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of the visible elements."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((one) => one.checkVisibility()).map((one) => one.innerText)",
            selector,
        )

    @property
    def fragment(self) -> str:
        return self.run("return decodeURIComponent(location.hash)")

    @property
    def errors(self) -> list[str]:
        """What the console has, since it was asked for last."""
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """The page of a report with every state."""
    yield from _opened(browser, tmp_path, every_state())


def _opened(browser: Any, folder: Path, content: dict[str, Any]) -> Iterator[Opened]:
    path = folder / "report.html"
    path.write_text(render(content, ".html"), encoding="utf-8")
    report_page = Opened(browser, path)
    report_page.open()
    yield report_page
    assert report_page.errors == []


def test_the_grid_has_the_worst_of_each_cell(opened: Opened) -> None:
    assert opened.texts("#grid tbody td") == ["F 1", "F 2/9", "? 1"]
    assert opened.run("return window.isSecureContext")


def test_a_click_on_a_cell_shows_its_cases(opened: Opened) -> None:
    assert opened.texts("#list li") == []
    opened.click("#grid td[data-column=compile]")
    (line,) = opened.texts("#list li")
    assert "compile.static" in line
    assert "a stride assertion" in line
    assert opened.texts(".card b")[0] == "fake-stride-mismatch"
    assert opened.fragment == "#op=ns::op&check=compile"
    opened.click("#list .open")
    assert "real (1, 3), fake (3, 1)" in opened.texts("#card-1 pre")
    assert opened.fragment == "#op=ns::op&check=compile&card=1"


def test_a_mismatch_is_pictured(opened: Opened) -> None:
    opened.open("#card=1")
    shown = opened.run(
        "return [...document.querySelectorAll('#card-1 image')].map((one) => [one.href.baseVal,"
        "one.getBoundingClientRect().width, one.getBoundingClientRect().height])"
    )
    assert shown == [[f"data:image/png;base64,{PIXEL}", 198, 98]] * 3
    failed = opened.browser.execute_async_script(
        "const made = new Image(); made.onload = () => arguments[1](made.naturalWidth);"
        "made.onerror = () => arguments[1]('no picture'); made.src = arguments[0]",
        shown[0][0],
    )
    assert failed == 2


def test_filters_leave_what_they_name(opened: Opened) -> None:
    opened.click(".chip[data-state=noted]")
    assert len(opened.texts("#list li")) == 1
    assert opened.texts("section.cards h2") == ["Notes 1 of 1"]
    opened.click(".chip[data-state=known]")
    assert len(opened.texts("#list li")) == 2
    opened.click("#reset")
    assert opened.fragment == ""
    field = opened.browser.find_element("id", "q")
    field.send_keys("KINK not-smooth fake")
    time.sleep(0.4)
    assert opened.texts("#list li") == []
    field.clear()
    field.send_keys("a KINK")
    time.sleep(0.4)
    assert len(opened.texts("#list li")) == 1
    opened.click("#reset")
    opened.run(
        "const one = document.getElementById('device'); one.value = 'cuda';"
        "one.dispatchEvent(new Event('change'))"
    )
    assert opened.texts("#told") == ["1 of 11 results"]


def test_the_address_brings_the_view_back(opened: Opened) -> None:
    opened.click(".chip[data-state=failed]")
    opened.click("#grid td[data-column=fake]")
    opened.click("#card-1 > summary")
    view = opened.fragment
    before = opened.texts("#list li, .card b, .chip[aria-pressed=true], #grid td")
    assert "state=failed" in view
    assert view.endswith("card=1")
    opened.open(view)
    assert opened.texts("#list li, .card b, .chip[aria-pressed=true], #grid td") == before
    assert opened.texts("#card-1 pre")
    opened.open("#card=2")
    assert opened.texts(".card[open] b") == ["error"]
    opened.open("#finding-fake-stride-mismatch")
    assert "Compiled code reads other elements." in opened.texts(".card[open] p")


def test_links_in_the_page_keep_the_view(opened: Opened) -> None:
    opened.open("#state=failed&card=1")
    opened.click("#card-1 a")
    assert opened.texts("#findings .card[open] b") == ["fake-stride-mismatch"]
    assert opened.fragment == "#state=failed&card=1"


def test_a_family_opens_into_its_checks(browser: Any, tmp_path: Path) -> None:
    content = report(*(result(check=f"fake.{name}") for name in "abc"))
    for opened in _opened(browser, tmp_path, content):
        opened.click("#collapse")
        assert opened.texts("#grid tbody td") == ["✓ 3"]
        opened.click("[data-family=fake]")
        assert opened.texts("#grid tbody td") == ["✓ 1"] * 3
        assert opened.texts("#grid .turned") == ["a", "b", "c"]
        opened.open(opened.fragment)
        assert opened.texts("#grid tbody td") == ["✓ 1"] * 3


@pytest.mark.parametrize("allowed", [True, False])
def test_the_button_copies(opened: Opened, allowed: bool) -> None:
    """Also where the page may not use the clipboard by itself."""
    for name in ("clipboardReadWrite", "clipboardSanitizedWrite"):
        opened.command(
            "Browser.setPermission",
            permission={"name": name.replace("clipboardReadWrite", "clipboard-read")}
            if name == "clipboardReadWrite"
            else {"name": "clipboard-write"},
            setting="granted",
        )
    opened.open("#card=1")
    if not allowed:
        opened.run("navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))")
    button = opened.browser.find_elements("css selector", "#card-1 .copy")[1]
    button.click()
    time.sleep(0.3)
    assert button.text == "Copied"
    copied = opened.browser.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))"
    )
    assert copied == "pytest 'test_it.py::test_op[cpu-float32-nograd-1-fake.forward]'"


def test_all_is_reached_by_the_keyboard(opened: Opened) -> None:
    """Each cell by the arrow keys from one stop, everything else by the tab key."""
    stops = []
    for _ in range(60):
        opened.browser.switch_to.active_element.send_keys(Keys.TAB)
        stops.append(
            opened.run(
                "const one = document.activeElement; return one.id || one.className || one.tagName"
            )
        )
    for stop in ("chip", "q", "device", "dtype", "grad", "finding", "expand", "failed"):
        assert stop in stops
    assert stops[: stops.index("SUMMARY")].count("failed") == 1
    opened.run("document.querySelector('#grid td').focus()")
    opened.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert opened.run("return document.activeElement.textContent") == "F 2/9"
    opened.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert opened.texts("#list h3") == ["9 results of ns::op fake"]
    assert opened.run("return document.activeElement.textContent") == "F 2/9"
    opened.run("document.querySelector('#card-1 > summary').focus()")
    opened.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert opened.texts("#card-1 pre")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_text_can_be_read(opened: Opened, dark: bool, width: int) -> None:
    """In either mode, and the page is no wider than its window."""
    opened.open("#q=test", width, dark)
    opened.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    ratio, text, texts = opened.run(CONTRAST)
    assert texts > 100
    assert ratio >= 4.5, text
    assert opened.run("return document.documentElement.scrollWidth") <= width


def test_nothing_that_a_user_writes_runs(browser: Any, tmp_path: Path) -> None:
    for opened in _opened(browser, tmp_path, hostile()):
        opened.run("window.alert = () => { document.title = 'alerted' }")
        opened.click(".chip")
        opened.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        opened.click("#grid td[data-column]")
        assert re.search(r"<script>alert\(1\)</script>", "".join(opened.texts("#list li")))
        assert opened.run("return document.images.length + document.title") == (
            "0Failed: operator conformance"
        )


def test_ten_thousand_results_are_filtered_at_once(browser: Any, tmp_path: Path) -> None:
    results = [
        result(
            number,
            "failed" if number % 100 == 0 else "passed",
            op=f"mylib::operator_{number % 200}",
            check=f"{'abcdefghi'[number % 9]}.check_{number % 4}",
        )
        for number in range(10_000)
    ]
    for opened in _opened(browser, tmp_path, report(*results)):
        took = opened.run(
            "const start = performance.now();"
            "document.querySelector('[data-state=failed]').click();"
            "document.body.offsetHeight;"
            "return performance.now() - start"
        )
        assert opened.texts("#told") == ["100 of 10000 results"]
        assert took < 1000  # milliseconds; some 50 where nothing else runs
