"""Write the example reports of the documentation: `docs/reports/`.

    python .ci/example_reports.py [reference | zoo | paste | picture ...]

`reference`: the bundled operators, with every check. `zoo`: the broken operators of `tests/zoo`, with
opcheck and with the checks that find each. `paste`: an operator that is off by one column. `picture`: a
picture of that page, by a Chromium without a window. Some minutes of processor time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reports"
sys.path.insert(0, str(ROOT))

from pytest_customop.report.formats import render  # noqa: E402

ZOO = """
from pytest_customop import customop_cases
from tests.zoo import specimens


def marked(one):
    checks = ["opcheck", *dict.fromkeys(check for check, _ in one.findings())]

    @customop_cases(one.op, one.samples, checks=checks, **{"variants": False, **one.options})
    def test(): ...

    return test


for name, one in specimens().items():
    if one.findings():
        globals()[f"test_{name}"] = marked(one)
"""

PASTE = """
import torch
from pytest_customop import Sample, customop_cases


def pasted(image, patch, at, shift):
    result = image.clone()
    top, left = at
    left += shift
    result[:, top : top + patch.shape[1], left : left + patch.shape[2]] = patch
    return result


@torch.library.custom_op("gallery::paste", mutates_args=())
def paste(image: torch.Tensor, patch: torch.Tensor, at: list[int]) -> torch.Tensor:
    return pasted(image, patch, at, shift=1)


@paste.register_fake
def _(image, patch, at):
    return torch.empty_like(image)


@torch.library.custom_op("gallery::invert", mutates_args=())
def invert(image: torch.Tensor) -> torch.Tensor:
    return 1 - image


@invert.register_fake
def _(image):
    return torch.empty_like(image)


rows, columns = torch.meshgrid(torch.linspace(0, 1, 48), torch.linspace(0, 1, 64), indexing="ij")
IMAGE = torch.stack([rows, columns, 0.5 + 0.5 * torch.sin(9 * (rows + columns))])
PATCH = torch.tensor([1.0, 0.9, 0.3])[:, None, None] * torch.linspace(0.4, 1, 20).expand(3, 14, 20)


@customop_cases(
    paste,
    [Sample((IMAGE, PATCH, [8, 30]), id="photo")],
    reference=lambda image, patch, at: pasted(image, patch, at, shift=0),
)
def test_paste(): ...


@customop_cases(invert, [Sample((IMAGE,), id="photo")], reference=lambda image: 1 - image)
def test_invert(): ...
"""


def reference() -> None:
    """The page of the bundled operators."""
    _write("reference_ops", "--pyargs", "reference_ops")


def zoo() -> None:
    """The page of the broken operators."""
    _write_suite("zoo", ZOO)


def paste() -> None:
    """The page of an operator that is off by one column."""
    _write_suite("paste", PASTE)


def _write_suite(name: str, source: str) -> None:
    path = ROOT / f"test_{name}.py"
    path.write_text(source, encoding="utf-8")
    try:
        _write(name, path.name)
    finally:
        path.unlink()


def _write(name: str, *selected: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *selected]
        arguments = [*command, f"--customop-report={report}", "-n", "2"]
        subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False)
        text = report.read_text("utf-8").replace(str(ROOT), "/src/pytest-customop")
    content = json.loads(text)
    content["environment"]["command"] = [*command, f"--customop-report={name}.html"]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.html").write_text(render(content, ".html"), encoding="utf-8")


def picture() -> None:
    """The picture of the page of the operator that is off by one."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,1290")
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.get((FOLDER / "paste.html").as_uri())
        browser.execute_script("document.querySelector('.card').open = true; scrollTo(0, 0)")
        browser.save_screenshot(str(FOLDER / "page.png"))
    finally:
        browser.quit()


if __name__ == "__main__":
    parts = {part.__name__: part for part in (reference, zoo, paste, picture)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *parts], metavar="PART")
    for part in parser.parse_args().parts or parts:
        parts[part]()
