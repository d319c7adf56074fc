"""Where the package is installed: the one module that knows, so that the others may move."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE_ROOT = Path(__file__).parents[1]

# What the file names of the package's own modules begin with.
PACKAGE_PREFIX = str(PACKAGE_ROOT) + os.sep
