"""State of the process, which a call must leave unchanged.

A "call" is a call of the op itself, of its fake kernel or, with gradients, of its backward.
"""
