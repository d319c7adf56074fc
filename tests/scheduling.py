"""How the whole suite is spread over workers: `--dist loadgroup`, also when a worker dies.

Up to pytest-xdist 3.8, its scheduler hands the items that a dead worker has already run to the others
again, as empty portions, and gives the worker that replaces it one item where it waits for two: the
session never ends. See https://github.com/pytest-dev/pytest-xdist/issues/1323 and issue 1327 there.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):
    """Items of one `xdist_group` on one worker; the item that a worker dies of does not run again."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Give the items that `node` has not run to the others, and return the one that it died of."""
        crashed: str | None = None
        left: dict[str, dict[str, bool]] = {}
        for scope, unit in self.assigned_work.pop(node).items():
            names = [name for name, completed in unit.items() if not completed]
            if names and crashed is None:
                crashed, *names = names
            if names:
                left[scope] = dict.fromkeys(names, False)
        self.workqueue.update(left)
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def schedule(self) -> None:
        """Spread the items; a worker that comes later gets two portions, as the first ones do."""
        super().schedule()
        super().schedule()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """The scheduler of `--dist loadgroup`, a hook of pytest-xdist."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None
