"""Compare autograd formulas with finite differences, at any size.

vectors     a function of tensors as a function of real vectors; difference quotients
projection  the small function `t -> U . f(x + V t)`, and torch's gradcheck on it
jacobian    where formula and finite differences differ, and whether that proves a defect
skips       what finite differences cannot judge
finding     the finding about a wrong gradient
verdict     the whole procedure: draws, skips and findings
"""
