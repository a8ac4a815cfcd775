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
  const at::Tensor ids = dropout.sample_ids.contiguous();
  const int64_t sample = x.numel() / x.size(0);
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    for (int64_t sequence = 0; sequence < x.size(0); ++sequence) {
      const auto id = static_cast<uint64_t>(ids.const_data_ptr<int64_t>()[sequence]);
      table.dropout(data_of<Element>(x) + sequence * sample, sample, dropout.mask(),
                    id * static_cast<uint64_t>(sample));
    }
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
  const at::Tensor ids = dropout.sample_ids.to(at::kCPU).contiguous();
  const int64_t sample = length * rest;
  at::Tensor factors = at::empty({ids.numel(), length, rest}, at::kFloat);
  auto* to = factors.data_ptr<float>();
  for (int64_t sequence = 0; sequence < ids.numel(); ++sequence) {
    const auto first = static_cast<uint64_t>(ids.const_data_ptr<int64_t>()[sequence]) * static_cast<uint64_t>(sample);
    for (int64_t i = 0; i < sample; ++i) {
      const uint32_t word = random_word(dropout.key, first + static_cast<uint64_t>(i));
      *to++ = dropout_keeps(word, dropout.mask().threshold) ? dropout.mask().factor : 0.0F;
    }
  }
  return factors;
}

const decltype(apply_dropout) apply_dropout("dropout", kDropout);

}  // namespace weft::kernel
