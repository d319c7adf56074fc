"""Arguments that the op must reject, as the mark's `errors=` lists them.

The mark says `errors=[ErrorSample((...), raises=ValueError, match="...")]`. Each error sample is a case of
its own (`cpu-float32-nograd-error0-errors.real`), in every device and dtype of the mark, and no other
check runs on it. torch itself rejects arguments that do not fit the schema before any kernel runs, so
they cannot be error samples.
"""
