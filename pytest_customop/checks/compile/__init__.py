"""The op under `torch.compile(fullgraph=True)`, compared with eager mode.

The op is compiled with a real backend (`--customop-backend`, by default Inductor), with code before and
after it that reads memory by the fake strides: an op that is right alone can be wrong in `op(x) * 2`.
Outputs, mutated arguments and gradients, and which gradients are None, must equal those of eager mode.
"""
