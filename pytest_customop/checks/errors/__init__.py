"""Arguments that the op must reject: those of the mark's `errors=`, and what a docstring says to raise.

The mark says `errors=[ErrorSample((...), raises=ValueError, match="...")]`. Each error sample is a case of
its own (`cpu-float32-nograd-error0-errors.real`), in every device and dtype of the mark, and no check but
`errors.real` and `errors.fake` runs on it. torch itself rejects arguments that do not fit the schema
before any kernel runs, so they cannot be error samples. `errors.documented` runs on the usual samples.
"""
