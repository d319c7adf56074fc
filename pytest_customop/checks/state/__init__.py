"""What a call leaves behind in the process.

A call is that of the op itself, of its fake kernel and, with gradients, of its backward.
"""
