"""What `state.*` find: global state that a call changes."""

from __future__ import annotations

from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "rng-undeclared": Explanation(
        meaning=(
            "The op takes numbers from a global random stream and is not tagged as random, or its "
            "fake kernel takes some."
        ),
        fix=(
            "Define the op with tags=(torch.Tag.nondeterministic_seeded,); or take a seed or a "
            "torch.Generator as an argument. A fake kernel needs no random numbers."
        ),
        why=(
            "Activation checkpointing and torch.compile treat an untagged op as a function of its "
            "arguments: they compute it again, merge two calls into one, and do not keep the "
            "random stream for it."
        ),
        before=(
            '@torch.library.custom_op("my::noise", mutates_args=())\n'
            "def noise(x: Tensor) -> Tensor:\n"
            "    return x + torch.randn_like(x)"
        ),
        after=(
            '@torch.library.custom_op("my::noise", mutates_args=(),\n'
            "                         tags=(torch.Tag.nondeterministic_seeded,))\n"
            "def noise(x: Tensor) -> Tensor:\n"
            "    return x + torch.randn_like(x)"
        ),
        docs=(
            "https://docs.pytorch.org/docs/stable/notes/randomness.html",
            "https://docs.pytorch.org/docs/stable/library.html",
        ),
        follows=("rng-reseeded",),
    ),
    "rng-reseeded": Explanation(
        meaning="The op, its fake kernel or its backward seeds a global random stream.",
        fix=(
            "Use a generator of your own, torch.Generator(device).manual_seed(seed) or "
            "numpy.random.default_rng(seed); or wrap the kernel in torch.random.fork_rng()."
        ),
        why=(
            "Every random number after the call is the same in every step: dropout masks repeat, "
            "augmentation stops."
        ),
        before="torch.manual_seed(0)\nmask = torch.rand_like(x) > 0.5",
        after=(
            "own = torch.Generator(x.device).manual_seed(0)\n"
            "mask = torch.rand(x.shape, generator=own, device=x.device) > 0.5"
        ),
        docs=(
            "https://docs.pytorch.org/docs/stable/random.html",
            "https://docs.pytorch.org/docs/stable/notes/randomness.html",
        ),
    ),
    "global-state-changed": Explanation(
        meaning=(
            "After a call of the op, its fake kernel or its backward, a global setting is not what "
            "it was: default dtype, grad mode, number of threads, filters of warnings, ..."
        ),
        fix=(
            "Pass dtype=, device= and the like where they are needed; where a setting must be "
            "switched, do it in a `with` block (or try/finally) that puts it back."
        ),
        why=(
            "Everything that runs later in the process runs under the new setting: other layers "
            "compute in another dtype, gradients stop, warnings are lost. Compiled code checks such "
            "settings and is compiled anew."
        ),
        before="torch.set_default_dtype(torch.float64)\nweights = torch.linspace(0, 1, n)",
        after="weights = torch.linspace(0, 1, n, dtype=torch.float64)",
        docs=(
            "https://docs.pytorch.org/docs/stable/torch.html",
            "https://docs.pytorch.org/docs/stable/generated/torch.set_default_dtype.html",
        ),
    ),
}
