"""The README's example prints what the README says."""

import re
from pathlib import Path

import pytest
from kit import Suite

README = Path(__file__).parents[1] / "README.md"


def _blocks(language: str) -> list[str]:
    """The code blocks in a language, or in none."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in blocks if name == language]


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")
def test_the_example_prints_what_the_readme_says(suite: Suite) -> None:
    (example,) = _blocks("python")
    (printed,) = (block for block in _blocks("") if block.startswith("fake-stride-mismatch"))
    suite.write("test_shrink.py", example)
    output = suite.run_apart("--customop-variants=quick", checks=None).stdout.str()
    assert printed in output


def test_it_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
