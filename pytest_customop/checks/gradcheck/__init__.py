"""Gradients compared with finite differences in float64, at any size.

They stand on `torch.autograd.gradcheck`. An op that rounds needs `gradcheck=GradOptions(eps=...)` with a
multiple of its step. An op whose gradient is not the derivative on purpose needs a reason:
`gradcheck="straight-through estimator"`.
"""
