"""An op with a kernel for the CPU and one for a device of our own, checked on both.

pytest examples/own_device --customop-devices=cpu,mydevice
"""

import torch

from pytest_customop import customop_cases, tensor

LIBRARY = torch.library.Library("own_device", "DEF")
LIBRARY.define("negate(Tensor x) -> Tensor")


def negate_on_cpu(x: torch.Tensor) -> torch.Tensor:
    return -x


def negate_on_mydevice(x: torch.Tensor) -> torch.Tensor:
    """In place of what a real device would do."""
    return (-x.cpu()).to(x.device)


LIBRARY.impl("negate", negate_on_cpu, "CPU")
LIBRARY.impl("negate", negate_on_mydevice, "PrivateUse1")


@torch.library.register_fake("own_device::negate", lib=LIBRARY)
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


torch.library.register_autograd("own_device::negate", lambda ctx, grad: -grad, lib=LIBRARY)


@customop_cases("own_device::negate", samples=[(tensor(4, 3),)])
def test_negate(): ...


def test_on_every_device(customop_device):
    x = torch.ones(3, device=customop_device)
    assert torch.equal(torch.ops.own_device.negate(x).cpu(), -torch.ones(3))
