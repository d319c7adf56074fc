"""Two calls of the op that must agree, where no reference says what is right.

The same values in a wider dtype, whole numbers near the ends of theirs and a number added to all of them,
positions as int32 and as int64, a dim counted from either end, an argument that all entries share and one
that repeats it for each, gradients on and off, the same seed twice: none of this changes what a correct op
computes, except by rounding. And what holds for few entries of a dim holds for many: parts of them together
give what all do, in any order. Values of an op that is tagged as random are compared by `relations.seed`
alone. A relation that an op does not have on purpose is left out by name, with a comment that says why:
`checks=["-relations.precision"]`.
"""
