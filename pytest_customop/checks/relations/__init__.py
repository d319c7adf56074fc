"""Checks that compare two calls of the op, which must agree. They need no reference.

None of these changes what a correct op computes, except by rounding: a wider dtype, also for integers near
the ends of their dtype; a number added to all integers; positions as int32 or int64; a dim counted from
either end; an argument that all entries share, or that is repeated for each; gradients on or off; the same
seed twice; whole periods added to coordinates; another number that marks missing elements; equal
elements, and nearly equal ones. The relations of few entries along a dim must hold for many: parts of them
together give the same as all, in any order. What a docstring says of padding, short groups and the ends of
ranges must hold too.

For an op tagged as random, only `relations.seed` compares values. If an op lacks a relation on purpose,
leave the check out by name, with a comment that says why: `checks=["-relations.precision"]`.
"""
