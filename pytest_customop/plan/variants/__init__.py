"""The variants of a sample: small named changes, each of which is one more case.

Each module derives one kind of change from the sample and the op's schema. `ranking` sorts them by how
likely they are to find something. The op decides whether a variant is valid: a rejected one is not a
failure.
"""
