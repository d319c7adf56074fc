"""Gradients compared with finite differences in float64, at any size.

These checks use `torch.autograd.gradcheck`. An op that rounds needs `gradcheck=GradOptions(eps=...)` with
a multiple of its step. If a gradient is deliberately not the derivative, give the reason:
`gradcheck="straight-through estimator"`.
"""
