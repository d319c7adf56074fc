"""The op compared with the function that the mark gives as `reference=`.

The reference takes the op's arguments and returns what the op should: a formula in torch ops, a slow
loop, numpy. It gets inputs of its own. A reference that raises, or returns another number of outputs, is
a mistake of the mark, and reported as an error instead of a finding about the op.
"""
