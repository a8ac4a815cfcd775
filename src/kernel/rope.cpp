#include "kernel/rope.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view loops_reason(const at::Tensor& data, const at::Tensor&, const RotationTable&, bool) {
  const std::string_view reason = reason_against_rows(data);
  if (!reason.empty()) return reason;
  return data.stride(2) == data.size(3) || data.size(2) == 1 ? "" : "its heads do not lie next to each other";
}

void rotate_loops(const at::Tensor& data, const at::Tensor& positions, const RotationTable& table, bool back) {
  const at::Tensor places = positions.contiguous();
  RowLayout rows{data.size(0) * data.size(1), data.size(2), data.size(3), data.stride(1)};
  if (data.size(1) == 1) rows.stride = data.stride(0);
  with_element(data.scalar_type(), [&](const auto& element_loops, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    auto* first = data_of<Element>(data);
    const auto *cosine = table.cosine.const_data_ptr<float>(), *sine = table.sine.const_data_ptr<float>();
    const auto* place = places.const_data_ptr<int64_t>();
    parallel_ranges(rows.outer, row_grain(rows.inner * rows.width), [&](int64_t begin, int64_t end) {
      element_loops.rotate(first + begin * rows.stride, {end - begin, rows.inner, rows.width, rows.stride}, cosine,
                           sine, place + begin, back ? -1.0F : 1.0F);
    });
  });
}

void rotate_reference(const at::Tensor& data, const at::Tensor& positions, const RotationTable& table, bool back) {
  const int64_t half = data.size(3) / 2;
  const at::Tensor cosine = table.cosine.index({positions}).unsqueeze(2);
  const at::Tensor sine = table.sine.index({positions}).unsqueeze(2) * (back ? -1.0 : 1.0);
  const at::Tensor first = data.narrow(3, 0, half).to(at::kFloat);
  const at::Tensor second = data.narrow(3, half, half).to(at::kFloat);
  data.copy_(at::cat({first * cosine - second * sine, second * cosine + first * sine}, 3));
}

constexpr decltype(rotate)::Implementation kRotate[] = {{"loops", loops_reason, rotate_loops},
                                                        {"reference", nullptr, rotate_reference}};

}  // namespace

RotationTable rotation_table(std::span<const double> inverse, double factor, int64_t positions,
                             const at::Device& device) {
  const auto half = static_cast<int64_t>(inverse.size());
  RotationTable table{at::empty({positions, half}, at::kFloat), at::empty({positions, half}, at::kFloat)};
  auto* cosine = table.cosine.data_ptr<float>();
  auto* sine = table.sine.data_ptr<float>();
  for (int64_t position = 0; position < positions; ++position) {
    for (const double frequency : inverse) {
      const double angle = static_cast<double>(position) * frequency;
      *cosine++ = static_cast<float>(std::cos(angle) * factor);
      *sine++ = static_cast<float>(std::sin(angle) * factor);
    }
  }
  return {table.cosine.to(device), table.sine.to(device)};
}

const decltype(rotate) rotate("rotate", kRotate);

}  // namespace weft::kernel
