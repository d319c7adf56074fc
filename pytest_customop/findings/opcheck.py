"""What `opcheck.*` find: torch's own four utilities."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "undeclared-mutation": Explanation(
        meaning=("The op writes to an argument that its schema does not declare as mutated."),
        fix=(
            "Name the argument in mutates_args= (or write Tensor(a!) in the schema), or copy "
            "it before writing."
        ),
    ),
    "undeclared-alias": Explanation(
        meaning=(
            "The op returns memory that it shares with an argument, and its schema does not say so."
        ),
        fix=("Return a copy: end the kernel with .clone()."),
    ),
    "autograd-registration": Explanation(
        meaning=("Gradients come from somewhere else than an Autograd registration."),
        fix=(
            "Register the formula with torch.library.register_autograd; do not build it from "
            "torch.autograd.Function inside a CPU or CUDA kernel."
        ),
    ),
    "opcheck-failure": Explanation(
        meaning=("A torch.library.opcheck utility failed with a message that is given as it is."),
        fix=("Read the message; it is torch's."),
    ),
}
