"""`--customop-harvest` on suites that know nothing of it: their outcomes stay, known findings are found."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

SUITES = Path(__file__).parent / "suites"
# Without `state`: it raises the number of threads, after which a call of two of sphericart's ops corrupts
# the heap (finding 30), and harvested items run in the process of the suite.
CHECKS = "opcheck,fake,values,gradcheck,vmap"

# Finding by op, all of them: docs/released-packages.md has each.
FBGEMM = {
    ("FloatToFused8BitRowwiseQuantized", "fake-size-hardcoded"),
    ("FloatToFused8BitRowwiseQuantized", "layout-dependent-result"),
    ("Fused8BitRowwiseQuantizedToFloat", "fake-size-hardcoded"),
    ("Fused8BitRowwiseQuantizedToFloat", "layout-dependent-result"),
    ("batch_index_select_dim0", "default-differs"),
    ("dense_to_jagged", "undeclared-alias"),
    ("jagged_dense_bmm", "undeclared-alias"),
    ("jagged_dense_elementwise_add_jagged_output", "undeclared-alias"),
    ("jagged_dense_elementwise_mul", "undeclared-alias"),
    ("jagged_softmax", "undeclared-alias"),
    ("pack_segments", "layout-dependent-result"),
    ("permute_2D_sparse_data", "layout-dependent-result"),
    ("segment_sum_csr", "layout-dependent-result"),
}
SPHERICART = {
    (f"{kind}_harmonics{what}", "vmap-mismatch")
    for kind in ("solid", "spherical")
    for what in ("", "_with_gradients", "_with_hessians")
}


def outcomes(suite, folder, *args):
    """The exit status of a suite in a process of its own, and the outcome of each of its tests."""
    alone = [f"--rootdir={SUITES}", f"--confcutdir={SUITES}", "-c", "/dev/null"]
    options = ["-q", "-p", "no:cacheprovider", "--junitxml=outcomes.xml", *alone, *args]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(SUITES / suite), *options], cwd=folder, timeout=600
    )
    tests = ElementTree.parse(folder / "outcomes.xml").iter("testcase")
    return done.returncode, {
        (test.get("classname"), test.get("name")): sorted(part.tag for part in test)
        for test in tests
        if not test.get("classname").startswith("harvest")
    }


@pytest.mark.parametrize(
    ("module", "suite", "namespace", "known"),
    [
        ("fbgemm_gpu.sparse_ops", "test_fbgemm_suite.py", "fbgemm", FBGEMM),
        ("sphericart.torch", "test_sphericart_suite.py", "sphericart_torch", SPHERICART),
    ],
    ids=["fbgemm", "sphericart"],
)
@pytest.mark.usefixtures("new_interpreters")
def test_suite(module, suite, namespace, known, tmp_path):
    pytest.importorskip(module)
    report = tmp_path / "report.json"
    options = [
        "--customop-variants=off",
        f"--customop-checks={CHECKS}",
        f"--customop-report={report}",
    ]
    plain, before = outcomes(suite, tmp_path)
    harvested, after = outcomes(suite, tmp_path, f"--customop-harvest={namespace}", *options)
    assert plain == 0
    assert before
    assert after == before
    assert harvested == 1, "there are findings"
    results = json.loads(report.read_text())["results"]
    findings = {
        (result["op"].partition("::")[2], result["finding"])
        for result in results
        if result["outcome"] not in ("passed", "skipped")
    }
    assert findings == known
