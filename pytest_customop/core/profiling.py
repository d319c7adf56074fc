"""Set a profile function for some calls, beside a profiler that may run."""

from __future__ import annotations

import sys
from typing import Any


def restore_profile(before: Any) -> None:
    """Set what `sys.getprofile()` has returned: a function, None, or a `cProfile.Profile`.

    cProfile's object is no function. Up to Python 3.11 `sys.setprofile` accepts it nevertheless, and the
    next call raises.
    """
    if before is None or callable(before):
        sys.setprofile(before)
    else:
        sys.setprofile(None)
        before.enable()
