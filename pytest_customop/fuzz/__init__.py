"""Generated inputs: drawn by Hypothesis from the samples of a mark, tried, and shrunk.

Nothing here is imported unless a session or a test needs it: Hypothesis is an optional dependency.
"""
