"""The family `backward`: what holds for every backward and finite differences do not see."""

from __future__ import annotations

from . import checkpointed, intact, layouts, linear, narrow, outputs, saved, second_order, subsets

_MODULES = (intact, layouts, linear, narrow, outputs, second_order, subsets, checkpointed)

CHECKS = sorted(
    [*(module.CHECK for module in _MODULES), *saved.CHECKS], key=lambda check: check.name
)
