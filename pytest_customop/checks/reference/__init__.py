"""The op compared with the function that the mark gives as `reference=`.

The reference takes the op's arguments and returns what the op should: a formula in torch ops, a slow
loop, numpy. It gets its own inputs. A reference that raises, or returns another number of outputs, is a
mistake in the mark. It is reported as an error, not as a finding about the op.
"""
