"""The op under `torch.compile(fullgraph=True)`, compared with eager mode.

The op is compiled with a real backend (`--customop-backend`, by default Inductor), with code before and
after it that reads memory by the fake strides: an op that is right alone can be wrong in `op(x) * 2`.
Outputs, mutated arguments and gradients, and which gradients are None, must equal those of eager mode.

On x86 processors, Inductor generates the code around the op without vector instructions: to detect which
ones the C++ compiler supports takes longer than to compile a dozen ops. Set `TORCHINDUCTOR_VEC_ISA_OK=1` in
the environment to use them.
"""
