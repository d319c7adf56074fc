"""Send file descriptors over a connection, after a message that announces them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any


def send_descriptors(connection: Connection[Any, Any], descriptors: Sequence[int]) -> None:
    """Send file descriptors; the other side gets copies of them."""
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        socket.send_fds(duplicate, [b"-"], list(descriptors))


def receive_descriptors(connection: Connection[Any, Any], count: int) -> list[int]:
    """The descriptors that the other side sends.

    Raises:
        EOFError: if it ends before it sends them.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        _, received, _, _ = socket.recv_fds(duplicate, 1, count)
    if len(received) != count:
        raise EOFError
    return received
