"""The version of torch."""

from __future__ import annotations

import torch

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
