"""Run items in a child process, so that a crash or a hang ends one item and not the session."""
