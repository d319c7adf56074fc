"""The variants of a sample: what an author's example stands beside and does not show.

Each module derives one kind of variants, each a small named step away from the sample; `choice`
puts them in order and says which are worth a call, `risk` which could take the process down. Whether a
variant is valid is the op's word: one that it refuses is no failure. `variant` imports no torch.
"""
