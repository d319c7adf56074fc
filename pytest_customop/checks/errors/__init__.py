"""Arguments that the op must reject, according to the mark's `errors=` or to a docstring.

The mark has `errors=[ErrorSample((...), raises=ValueError, match="...")]`. Each error sample is a case of
its own (`cpu-float32-nograd-error0-errors.real`), on every device and in every dtype of the mark. Only
`errors.real` and `errors.fake` run on it. torch itself rejects arguments that do not fit the schema
before any kernel runs, so they cannot be error samples. `errors.documented` runs on the usual samples.
"""
