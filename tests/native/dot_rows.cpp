// dot_rows: scale * sum over j of x[i][j] * y[i][j], for float and double; and the same op as it must
// not be: it declares no mutation and leaves the products in x.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/library.h>

namespace {

void check(const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.dim() == 2, "dot_rows: x has 2 dims, not ", x.dim());
  TORCH_CHECK(x.sizes() == y.sizes(), "dot_rows: x and y have one shape");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "dot_rows: x and y have one dtype");
}

at::Tensor dot_rows(const at::Tensor& x, const at::Tensor& y, double scale) {
  check(x, y);
  at::Tensor out = at::empty({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "dot_rows", [&] {
    auto left = x.accessor<scalar_t, 2>();
    auto right = y.accessor<scalar_t, 2>();
    auto result = out.accessor<scalar_t, 1>();
    for (int64_t i = 0; i < x.size(0); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < x.size(1); ++j) {
        sum += static_cast<double>(left[i][j]) * right[i][j];
      }
      result[i] = static_cast<scalar_t>(scale * sum);
    }
  });
  return out;
}

at::Tensor dot_rows_in_place(const at::Tensor& x, const at::Tensor& y, double scale) {
  check(x, y);
  at::Tensor products = x;  // the same memory: this is the mistake
  products.mul_(y);
  return products.sum(1).mul_(scale);
}

}  // namespace

TORCH_LIBRARY(zoo_native, m) {
  m.def("dot_rows(Tensor x, Tensor y, *, float scale=1.0) -> Tensor");
  m.def("dot_rows_in_place(Tensor x, Tensor y, *, float scale=1.0) -> Tensor");
  m.def("dot_rows_wide_fake(Tensor x, Tensor y, *, float scale=1.0) -> Tensor");
}

TORCH_LIBRARY_IMPL(zoo_native, CPU, m) {
  m.impl("dot_rows", &dot_rows);
  m.impl("dot_rows_in_place", &dot_rows_in_place);
  m.impl("dot_rows_wide_fake", &dot_rows);
}
