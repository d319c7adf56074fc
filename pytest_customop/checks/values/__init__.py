"""The op's results and writes in eager mode.

None of these checks needs a compiler. They also try inputs other than the sample's; an op that raises a
Python error for one of them is not a finding. Results for the same memory layout are compared exactly (a
NaN equals a NaN), results for other layouts up to rounding.
"""
