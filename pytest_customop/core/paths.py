"""The folder of the package. Other modules read it here, so that they can be moved."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE_ROOT = Path(__file__).parents[1]

# The file names of the package's modules begin with this.
PACKAGE_PREFIX = str(PACKAGE_ROOT) + os.sep
