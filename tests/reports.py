"""Reports for the tests of what is rendered from them."""

from __future__ import annotations

from typing import Any

from pytest_customop.report.json_file import SCHEMA

EXPLANATION = {
    "meaning": "The fake kernel's strides are not the real kernel's.",
    "why": "Compiled code reads other elements.",
    "fix": "return the real strides",
    "before": "return torch.empty(3)",
    "after": "return torch.empty_like(x)",
    "docs": ["https://docs.pytorch.org/docs/stable/library.html"],
}


def result(number: int = 0, outcome: str = "passed", **changes: Any) -> dict[str, Any]:
    """One result; those of other numbers are of other samples."""
    check = changes.get("check", "fake.forward")
    bad = outcome in ("failed", "xfailed", "noted")
    record = {
        "nodeid": f"test_it.py::test_op[cpu-float32-nograd-{number}-{check}]",
        "op": "ns::op",
        "check": check,
        "device": "cpu",
        "dtype": "float32",
        "requires_grad": False,
        "layout": "contiguous",
        "sample": str(number),
        "variant": None,
        "outcome": outcome,
        "finding": "fake-stride-mismatch" if bad else None,
        "message": "output: strides differ" if bad else "",
        "fix": "return the real strides" if bad else None,
        "known": "see #12" if outcome == "xfailed" else None,
        "reason": None,
        "why_noted": None,
        "unjudged": False,
        "changed": None,
        "arguments": ["x: float32[3]"] if bad else [],
        "evidence": "real (1, 3), fake (3, 1)" if bad else None,
        "picture": None,
        "cause": None,
        "script": "import torch\n" if bad else None,
        "repro": f"pytest 'test_it.py::test_op[cpu-float32-nograd-{number}-{check}]'",
        "seed": 7,
        "file": "test_it.py",
        "line": 12,
        "duration": 0.25,
    }
    return {**record, **changes}


def report(*results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A report of these results."""
    codes = {record["finding"] for record in results if record.get("finding")}
    return {
        "schema": SCHEMA,
        "environment": {
            "pytest_customop": "0.1.0",
            "torch": "2.15.0",
            "cuda": None,
            "gpu": None,
            "pytest": "9.2.0",
            "python": "3.11.7",
            "platform": "Linux",
            "seed": 0,
            "backend": "inductor",
            "devices": ["cpu"],
            "command": ["pytest", "-q"],
            "date": "2026-11-22T19:12:56+00:00",
        },
        "results": list(results),
        "findings": dict.fromkeys(codes, EXPLANATION),
        "coverage": [],
        "omitted": [],
        **changes,
    }


# A picture of one row and two columns.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR42mNgYGD4//8/AAYBAv67yYXpAAAAAElFTkSuQmCC"
PICTURE = {
    "of": "output[1, :, :]",
    "shape": [2, 1, 2],
    "at": [1, 0, 1],
    "rows": 1,
    "columns": 2,
    "worst": [0, 1],
    "low": 0.0,
    "high": 1.0,
    "largest": 0.5,
    "expected": PIXEL,
    "actual": PIXEL,
    "difference": PIXEL,
}


def every_state() -> dict[str, Any]:
    """A report with a result of each state, a consequence and a repetition."""
    cause = result(1, "failed", picture=PICTURE)
    return report(
        result(0),
        cause,
        result(2, "failed"),
        result(
            1,
            "failed",
            check="compile.static",
            finding="compile-stride-assert",
            message="a stride assertion",
            cause={name: cause[name] for name in ("nodeid", "op", "check", "variant")},
        ),
        result(3, "error", message="RuntimeError: a broken check"),
        result(4, "xpassed", known="see #13"),
        result(5, "xfailed"),
        result(
            6,
            "noted",
            variant="empty0",
            changed="x empty along dim 0",
            reason="beyond-sample",
            why_noted="another rank",
            message="beyond-sample (another rank): fake-stride-mismatch: output: strides differ",
        ),
        result(7, "skipped", reason="not-smooth", message="not-smooth: a kink", unjudged=True),
        result(8, "skipped", reason="no-formula", message="no-formula: it has none"),
        result(
            9,
            "skipped",
            check=None,
            device="cuda",
            sample=None,
            message="cuda is not here",
            unjudged=True,
        ),
        omitted=["shard 1 of 2"],
        coverage=[
            {
                "namespace": "ns",
                "ops": 2,
                "required": False,
                "not_judged": None,
                "without_case": ["ns::other"],
                "missing": True,
            }
        ],
    )


HOSTILE = (
    "</script></pre>--> \"'`<script>alert(1)</script><img src=x onerror=alert(1)> | @all ```\n\n# x\n"
    "::error::x %0A \x1b[31m\x00\udc80"
)


def hostile() -> dict[str, Any]:
    """A report with a text that means something in HTML, Markdown and annotations, in every field."""
    texts = ("nodeid", "op", "check", "device", "dtype", "layout", "sample", "variant", "finding")
    texts += (
        "message",
        "fix",
        "known",
        "changed",
        "evidence",
        "script",
        "repro",
        "why_noted",
        "reason",
        "file",
    )
    fields: dict[str, Any] = {name: f"{name}{HOSTILE}" for name in texts}
    fields["picture"] = {**PICTURE, "of": HOSTILE, "at": [HOSTILE]}
    results = [
        result(**{**fields, "outcome": outcome, "arguments": [HOSTILE]})
        for outcome in ("failed", "error", "xpassed", "xfailed", "noted", "skipped", "passed")
    ]
    results.append(result(**{**fields, "outcome": "skipped", "unjudged": True}))
    document = report(
        *results,
        omitted=[HOSTILE],
        coverage=[
            {"namespace": HOSTILE, "ops": 1, "not_judged": None, "without_case": [f"ns::{HOSTILE}"]}
        ],
    )
    document["environment"] = dict.fromkeys(document["environment"], HOSTILE) | {
        "command": [HOSTILE],
        "devices": [HOSTILE],
    }
    document["findings"] = {
        fields["finding"]: {
            **dict.fromkeys(EXPLANATION, HOSTILE),
            "docs": ["javascript:alert(1)", HOSTILE],
        }
    }
    return document
