"""Generated inputs: drawn by Hypothesis from the samples of a mark, tried, and made small.

Nothing here is imported unless a session or a test asks for it: Hypothesis is an optional dependency.
"""
