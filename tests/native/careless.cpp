// Copies and sums with mistakes that only memory, threads or many calls show, and the same ops without.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

const float* values(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat, "float32 only");
  TORCH_CHECK(x.is_contiguous(), "contiguous only");
  return x.const_data_ptr<float>();
}

// Squares by way of a workspace.
at::Tensor squared(const at::Tensor& x, std::vector<float>& workspace) {
  const float* from = values(x);
  int64_t count = x.numel();
  if (static_cast<int64_t>(workspace.size()) < count) {
    workspace.resize(count);
  }
  for (int64_t i = 0; i < count; ++i) {
    workspace[i] = from[i] * from[i];
  }
  at::Tensor out = at::empty_like(x);
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    to[i] = workspace[i];
  }
  return out;
}

at::Tensor static_workspace(const at::Tensor& x) {
  static std::vector<float> workspace(1 << 16);
  return squared(x, workspace);
}

at::Tensor thread_workspace(const at::Tensor& x) {
  thread_local std::vector<float> workspace(1 << 16);
  return squared(x, workspace);
}

at::Tensor locked_workspace(const at::Tensor& x) {
  static std::vector<float> workspace(1 << 16);
  static std::mutex lock;
  std::lock_guard<std::mutex> guard(lock);
  return squared(x, workspace);
}

at::Tensor leaks_workspace(const at::Tensor& x) {
  std::vector<float>* workspace = new std::vector<float>(1024);  // never deleted: this is the mistake
  return squared(x, *workspace);
}

at::Tensor frees_workspace(const at::Tensor& x) {
  std::vector<float> workspace(1024);
  return squared(x, workspace);
}

// The differences of each element and the next one; of the last one, the element itself.
at::Tensor differences(const at::Tensor& x, int64_t last) {
  const float* from = values(x);
  at::Tensor out = at::empty_like(x);
  float* to = out.mutable_data_ptr<float>();
  int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i) {
    float next = i < last ? from[i + 1] : 0.0f;
    to[i] = i + 1 < count ? from[i] - next : from[i] + 0.0f * next;
  }
  return out;
}

at::Tensor reads_past_end(const at::Tensor& x) {
  return differences(x, x.numel());
}

at::Tensor reads_to_end(const at::Tensor& x) {
  return differences(x, x.numel() - 1);
}

at::Tensor reads_before_start(const at::Tensor& x) {
  const float* from = values(x);
  at::Tensor out = at::empty_like(x);
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const volatile float* before = from + i - 1;  // also where i is 0: this is the mistake
    float previous = *before;
    to[i] = i > 0 ? from[i] - previous : from[i];
  }
  return out;
}

// Adds one to each element in place, in blocks of four.
void add_one(at::Tensor& x, bool whole_blocks) {
  values(x);
  float* data = x.mutable_data_ptr<float>();
  int64_t count = x.numel();
  for (int64_t start = 0; start < count; start += 4) {
    for (int64_t i = start; i < start + 4 && (whole_blocks || i < count); ++i) {
      data[i] += 1.0f;
    }
  }
}

void writes_past_end(at::Tensor& x) {
  add_one(x, true);
}

void writes_to_end(at::Tensor& x) {
  add_one(x, false);
}

// The sum, in blocks of 16 bytes that start at multiples of 16: the last one may reach past the end, but
// never out of the 16 bytes that the last element lies in.
at::Tensor reads_aligned_blocks(const at::Tensor& x) {
  const float* from = values(x);
  at::Tensor out = at::empty_like(x);
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = 2.0f * from[i];
  }
  return out;
}

// The sums of the columns; rows lie `stride(0)` elements apart.
template <typename Offset, typename Stride>
at::Tensor added_rows(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.dim() == 2, "a matrix of float32 only");
  at::Tensor out = at::zeros({x.size(1)}, x.options());
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  Stride down = static_cast<Stride>(x.stride(0)), right = static_cast<Stride>(x.stride(1));
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      to[j] += from[static_cast<Offset>(i * down + j * right)];
    }
  }
  return out;
}

at::Tensor int_offsets(const at::Tensor& x) {
  return added_rows<int, int64_t>(x);
}

at::Tensor int_strides(const at::Tensor& x) {
  return added_rows<int64_t, int>(x);
}

at::Tensor unsigned_offsets(const at::Tensor& x) {
  return added_rows<uint32_t, uint32_t>(x);
}

at::Tensor wide_offsets(const at::Tensor& x) {
  return added_rows<int64_t, int64_t>(x);
}

at::Tensor checked_int_offsets(const at::Tensor& x) {
  int64_t reach = 0;
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    reach += (x.size(dim) - 1) * x.stride(dim);
  }
  TORCH_CHECK(reach <= INT32_MAX, "the tensor reaches too far");
  return added_rows<int, int>(x);
}

at::Tensor dense_int_offsets(const at::Tensor& x) {
  return added_rows<int, int>(x.contiguous());
}

// An accessor that takes tensors of up to 2**31 elements, however far these lie apart.
at::Tensor accessor_32(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.dim() == 2, "a matrix of float32 only");
  at::Tensor out = at::zeros({x.size(1)}, x.options());
  auto from = x.packed_accessor32<float, 2>();
  float* to = out.mutable_data_ptr<float>();
  for (int i = 0; i < from.size(0); ++i) {
    for (int j = 0; j < from.size(1); ++j) {
      to[j] += from[i][j];
    }
  }
  return out;
}

// The sum of all bytes of the storage, in a copy of it.
at::Tensor copies_storage(const at::Tensor& x) {
  int64_t bytes = x.storage().nbytes();
  at::Tensor copy = at::zeros({bytes}, at::kByte);
  std::memcpy(copy.mutable_data_ptr(), x.storage().data(), bytes);
  return added_rows<int64_t, int64_t>(x) + 0 * copy.sum();
}

at::Tensor aborts_on_large_strides(const at::Tensor& x) {
  if (x.stride(0) > INT16_MAX) {
    std::abort();
  }
  return added_rows<int, int>(x);
}

}  // namespace

TORCH_LIBRARY(zoo_careless, m) {
  m.def("static_workspace(Tensor x) -> Tensor");
  m.def("thread_workspace(Tensor x) -> Tensor");
  m.def("locked_workspace(Tensor x) -> Tensor");
  m.def("leaks_workspace(Tensor x) -> Tensor");
  m.def("frees_workspace(Tensor x) -> Tensor");
  m.def("reads_past_end(Tensor x) -> Tensor");
  m.def("reads_before_start(Tensor x) -> Tensor");
  m.def("reads_to_end(Tensor x) -> Tensor");
  m.def("reads_aligned_blocks(Tensor x) -> Tensor");
  m.def("writes_past_end(Tensor(a!) x) -> ()");
  m.def("writes_to_end(Tensor(a!) x) -> ()");
  m.def("int_offsets(Tensor x) -> Tensor");
  m.def("int_strides(Tensor x) -> Tensor");
  m.def("unsigned_offsets(Tensor x) -> Tensor");
  m.def("wide_offsets(Tensor x) -> Tensor");
  m.def("checked_int_offsets(Tensor x) -> Tensor");
  m.def("dense_int_offsets(Tensor x) -> Tensor");
  m.def("accessor_32(Tensor x) -> Tensor");
  m.def("copies_storage(Tensor x) -> Tensor");
  m.def("aborts_on_large_strides(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(zoo_careless, CPU, m) {
  m.impl("static_workspace", &static_workspace);
  m.impl("thread_workspace", &thread_workspace);
  m.impl("locked_workspace", &locked_workspace);
  m.impl("leaks_workspace", &leaks_workspace);
  m.impl("frees_workspace", &frees_workspace);
  m.impl("reads_past_end", &reads_past_end);
  m.impl("reads_before_start", &reads_before_start);
  m.impl("reads_to_end", &reads_to_end);
  m.impl("reads_aligned_blocks", &reads_aligned_blocks);
  m.impl("writes_past_end", &writes_past_end);
  m.impl("writes_to_end", &writes_to_end);
  m.impl("int_offsets", &int_offsets);
  m.impl("int_strides", &int_strides);
  m.impl("unsigned_offsets", &unsigned_offsets);
  m.impl("wide_offsets", &wide_offsets);
  m.impl("checked_int_offsets", &checked_int_offsets);
  m.impl("dense_int_offsets", &dense_int_offsets);
  m.impl("accessor_32", &accessor_32);
  m.impl("copies_storage", &copies_storage);
  m.impl("aborts_on_large_strides", &aborts_on_large_strides);
}
