#include "kernel/embedding.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::vector<int64_t> gathered_shape(const at::Tensor& table, const at::Tensor& indices) {
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(table.size(1));
  return shape;
}

// Calls body(place, row of the table) for each index.
template <typename Body>
void each_index(const at::Tensor& indices, int64_t rows, Body body) {
  const at::Tensor flat = indices.contiguous();
  const auto* index = flat.const_data_ptr<int64_t>();
  for (int64_t place = 0; place < flat.numel(); ++place) {
    WEFT_CHECK(index[place] >= 0 && index[place] < rows);
    body(place, index[place]);
  }
}

std::string_view gather_reason(const at::Tensor& table, const at::Tensor&, double) {
  return reason_against_rows(table);
}

at::Tensor gather_loops(const at::Tensor& table, const at::Tensor& indices, double factor) {
  at::Tensor out = at::empty(gathered_shape(table, indices), table.options());
  const int64_t width = table.size(1);
  with_element(table.scalar_type(), [&](const auto& element_loops, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    each_index(indices, table.size(0), [&](int64_t place, int64_t row) {
      std::copy_n(data_of<Element>(table) + row * table.stride(0), width, data_of<Element>(out) + place * width);
    });
    if (factor != 1) element_loops.scale(data_of<Element>(out), static_cast<float>(factor), out.numel());
  });
  return out;
}

at::Tensor gather_reference(const at::Tensor& table, const at::Tensor& indices, double factor) {
  const at::Tensor rows = table.index_select(0, indices.reshape({-1})).view(gathered_shape(table, indices));
  return factor == 1 ? rows : rows * factor;
}

std::string_view add_reason(const at::Tensor& out, const at::Tensor& table, const at::Tensor&) {
  return reason_against_rows(out, table);
}

void add_loops(const at::Tensor& out, const at::Tensor& table, const at::Tensor& indices) {
  const int64_t width = table.size(1);
  with_element(table.scalar_type(), [&](const auto& element_loops, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    each_index(indices, table.size(0), [&](int64_t place, int64_t row) {
      auto* to = data_of<Element>(out) + place * width;
      element_loops.add_scaled(to, data_of<Element>(table) + row * table.stride(0), 1, width, to);
    });
  });
}

void add_reference(const at::Tensor& out, const at::Tensor& table, const at::Tensor& indices) {
  out.add_(gather_reference(table, indices, 1));
}

std::string_view scatter_reason(const at::Tensor&, const at::Tensor& dy, const at::Tensor&, double) {
  return reason_against_rows(dy);
}

void scatter_loops(const at::Tensor& dtable, const at::Tensor& dy, const at::Tensor& indices, double factor) {
  const at::Tensor wide = dy.to(at::kFloat).contiguous();
  const int64_t width = dtable.size(1);
  each_index(indices, dtable.size(0), [&](int64_t place, int64_t row) {
    auto* to = data_of<float>(dtable) + row * dtable.stride(0);
    loops().float32.add_scaled(to, data_of<float>(wide) + place * width, static_cast<float>(factor), width, to);
  });
}

void scatter_reference(const at::Tensor& dtable, const at::Tensor& dy, const at::Tensor& indices, double factor) {
  dtable.index_add_(0, indices.reshape({-1}), dy.to(at::kFloat).reshape({-1, dtable.size(1)}), factor);
}

constexpr decltype(gather_rows)::Implementation kGather[] = {{"loops", gather_reason, gather_loops},
                                                             {"reference", nullptr, gather_reference}};
constexpr decltype(add_rows)::Implementation kAdd[] = {{"loops", add_reason, add_loops},
                                                       {"reference", nullptr, add_reference}};
constexpr decltype(scatter_add_rows)::Implementation kScatter[] = {{"loops", scatter_reason, scatter_loops},
                                                                   {"reference", nullptr, scatter_reference}};

}  // namespace

const decltype(gather_rows) gather_rows("gather_rows", kGather);
const decltype(add_rows) add_rows("add_rows", kAdd);
const decltype(scatter_add_rows) scatter_add_rows("scatter_add_rows", kScatter);

}  // namespace weft::kernel
