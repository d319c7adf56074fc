"""Private parts of pytest-xdist, seen in 3.6 to 3.8."""

from __future__ import annotations

from typing import Any


def report_items_of(session: Any, item: Any) -> None:
    """In a worker, let the reports of an item be sent that the controller did not schedule.

    The worker's own plugin sends a report with the position of the running item in the session's items.
    Outside of a worker there is nothing to do.
    """
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and hasattr(plugin, "sendevent"):
            plugin.item_index = session.items.index(item)


def is_controller(config: Any) -> bool:
    """Whether the tests run in workers of this session."""
    return bool(config.pluginmanager.has_plugin("dsession"))
