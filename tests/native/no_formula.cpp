// Two ops with kernels at the Autograd key: `square_without_formula` has the one by which torch says that
// there is no formula, and `square_raising` has a formula whose backward raises.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

at::Tensor squared(const at::Tensor& x) {
  return at::mul(x, x).contiguous();
}

struct Square : public torch::autograd::Function<Square> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return squared(x);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* ctx,
      torch::autograd::variable_list grads) {
    TORCH_CHECK(false, "this backward is not written");
  }
};

at::Tensor square_raising(const at::Tensor& x) {
  return Square::apply(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(zoo_native, m) {
  m.def("square_without_formula(Tensor x) -> Tensor");
  m.def("square_raising(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(zoo_native, CPU, m) {
  m.impl("square_without_formula", &squared);
  m.impl("square_raising", &squared);
}

TORCH_LIBRARY_IMPL(zoo_native, Autograd, m) {
  m.impl("square_without_formula", torch::autograd::autogradNotImplementedFallback());
  m.impl("square_raising", &square_raising);
}
