#include "kernel/dropout.h"

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/random.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view loops_reason(const at::Tensor& x, const Dropout&) { return reason_against_rows(x); }

void dropout_loops(const at::Tensor& x, const Dropout& dropout) {
  WEFT_CHECK(x.is_contiguous() && dropout.sample_ids.numel() == x.size(0));
  if (x.numel() == 0) return;
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    dropout.each_run(x.size(1), x.numel() / (x.size(0) * x.size(1)),
                     [&](int64_t place, uint64_t number, int64_t count) {
                       table.dropout(data_of<Element>(x) + place, count, dropout.mask(), number);
                     });
  });
}

void dropout_reference(const at::Tensor& x, const Dropout& dropout) {
  const at::Tensor factors = dropout_factors(dropout, x.size(1), x.numel() / (x.size(0) * x.size(1)));
  x.mul_(factors.view(x.sizes()).to(x.device()));
}

constexpr decltype(apply_dropout)::Implementation kDropout[] = {{"loops", loops_reason, dropout_loops},
                                                                {"reference", nullptr, dropout_reference}};

}  // namespace

DropoutMask Dropout::mask() const {
  return {stream_of(key), dropout_threshold(probability), static_cast<float>(1 / (1 - probability))};
}

at::Tensor dropout_factors(const Dropout& dropout, int64_t length, int64_t rest) {
  at::Tensor factors = at::empty({dropout.sample_ids.numel(), length, rest}, at::kFloat);
  auto* to = factors.data_ptr<float>();
  dropout.each_run(length, rest, [&](int64_t place, uint64_t number, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t word = random_word(dropout.key, number + static_cast<uint64_t>(i));
      to[place + i] = dropout_keeps(word, dropout.mask().threshold) ? dropout.mask().factor : 0.0F;
    }
  });
  return factors;
}

const decltype(apply_dropout) apply_dropout("dropout", kDropout);

}  // namespace weft::kernel
