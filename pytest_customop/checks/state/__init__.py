"""State of the process, which a call must leave as it was.

A "call" is one of the op itself, of its fake kernel and, with gradients, of its backward.
"""
