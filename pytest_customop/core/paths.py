"""The folder of the package. Other modules do not work it out from their own place, so they can move."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE_ROOT = Path(__file__).parents[1]

# File names of modules of the package begin with this.
PACKAGE_PREFIX = str(PACKAGE_ROOT) + os.sep
