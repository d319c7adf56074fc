"""Autograd formulas against finite differences, at any size.

vectors     a function of tensors, seen as a function of real vectors; difference quotients
projection  the small function `t -> U . f(x + V t)`, and torch's gradcheck on it
jacobian    where formula and finite differences differ, and whether that proves a defect
judge       the whole procedure: redraws, skips and findings
"""
