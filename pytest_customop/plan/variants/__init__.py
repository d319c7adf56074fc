"""The variants of a sample: small named changes of it, each of which is one more case.

Each module derives one kind of change from the sample and the op's schema. `ranking` puts them in the
order in which they are worth trying. Whether a variant is valid is for the op to say: one that it rejects
is not a failure.
"""
