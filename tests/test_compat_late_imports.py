"""`late_imports`: each test fails when torch moves what it uses."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_customop.compat import late_imports
from pytest_customop.compat.stored_functions import functions_are_stored

# Stores a function that multiplies matrices, or loads it, and says which modules it took.
SOURCE = """
import sys
import torch
from pytest_customop.compat.compiler import compile_session
from pytest_customop.compat.stored_functions import compile_and_store, load_function

def product(tensors):
    return (tensors[0] @ tensors[1]).relu() + 1

given = [torch.ones(3, 4), torch.ones(4, 5)]
with compile_session():
    compiled = load_function("product", product)
    if compiled is None:
        print("stored")
        compiled = compile_and_store("product", product, given, dynamic=False)
    else:
        print("loaded", "torch._inductor.lowering" in sys.modules)
    assert torch.equal(compiled(given), torch.full((3, 5), 5.0))
stands_in = [name for name, one in sys.modules.items() if type(one).__name__ == "_StandIn"]
assert stands_in == [], stands_in
"""


@pytest.mark.skipif(not functions_are_stored(), reason="torch stores no functions here")
def test_a_stored_function_is_loaded_without_what_compiles_it(tmp_path: Path) -> None:
    script = tmp_path / "product.py"
    script.write_text(SOURCE)
    # With TORCHINDUCTOR_VEC_ISA_OK, which the tests set, Inductor imports more.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TORCHIND")}
    for expected in ("stored", "loaded False"):
        ran = subprocess.run(
            [sys.executable, str(script)],
            env={**env, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (ran.returncode, ran.stdout.strip()) == (0, expected), ran.stderr


# Reads the settings twice: before the module is imported that chooses among templates, and after.
SETTINGS = """
import sys
from pytest_customop.compat.stored_functions import compiler_fingerprint

before = compiler_fingerprint()
print("torch._inductor.choices" in sys.modules)
import torch._inductor.choices
assert compiler_fingerprint() == before
"""


@pytest.mark.skipif(not functions_are_stored(), reason="torch stores no functions here")
def test_settings_are_read_without_what_chooses_templates() -> None:
    ran = subprocess.run([sys.executable, "-c", SETTINGS], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "False"), ran.stderr


def test_what_stands_in_has_the_names_of_the_modules() -> None:
    utils = importlib.import_module("torch._inductor.utils")
    planning = importlib.import_module(late_imports._PLANNING)
    if hasattr(utils, "_align"):
        assert planning._align is utils._align
    assert hasattr(importlib.import_module(late_imports._KERNELS), "extern_kernels")
    lowering = importlib.import_module(late_imports._LOWERING).GraphLowering
    assert lowering.save_output_code is None


def test_any_other_name_is_that_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "xml.sax.saxutils"
    real = importlib.import_module(name)
    module = late_imports._StandIn(name)
    monkeypatch.setitem(sys.modules, name, module)
    assert not hasattr(module, "__path__")
    assert sys.modules[name] is module
    assert module.escape("<") == real.escape("<")
    assert sys.modules[name] is not module


def test_modules_that_are_there_stay() -> None:
    before = importlib.import_module(late_imports._KERNELS)
    with late_imports.late_imports():
        assert sys.modules[late_imports._KERNELS] is before
    assert sys.modules[late_imports._KERNELS] is before
