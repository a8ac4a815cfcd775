#include "tensor/rule.h"

#include "base/check.h"
#include "tensor/notation.h"
#include "tensor/placement_rule.h"

namespace weft::tensor {

Rule::Rule(std::string_view name, std::string_view notation, RuleOptions options) : name_(name), options_(options) {
  infer_ = [parsed = Notation(notation, options.whole)](const Rule& rule, Inputs inputs, const Arguments&) {
    return rule.infer(inputs, parsed.factors(rule.name(), inputs));
  };
}

Rule::Rule(std::string_view name, Infer infer, RuleOptions options)
    : name_(name), options_(options), infer_(std::move(infer)) {}

Rule::~Rule() {
  for (std::atomic<Entry*>& bucket : buckets_) {
    for (Entry* entry = bucket.load(); entry != nullptr;) {
      Entry* next = entry->next;
      delete entry;
      entry = next;
    }
  }
}

const mesh::Spec* Rule::find(const Key& key) const {
  uint64_t hash = 0;
  for (const mesh::Spec* spec : key.specs) hash = (hash + reinterpret_cast<uintptr_t>(spec)) * 0x9E3779B97F4A7C15;
  for (const int64_t argument : key.arguments) hash = (hash ^ static_cast<uint64_t>(argument)) * 0x9E3779B97F4A7C15;
  std::atomic<Entry*>& bucket = buckets_[hash >> 58];
  for (const Entry* entry = bucket.load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
    if (entry->key == key) return entry->output;
  }
  return add(key, bucket);
}

const mesh::Spec* Rule::add(const Key& key, std::atomic<Entry*>& bucket) const {
  const Inputs inputs(key.specs.data(), static_cast<size_t>(key.count));
  for (const mesh::Spec* spec : inputs) WEFT_CHECK(spec != nullptr);
  auto* entry = new Entry{key, infer_(*this, inputs, key.arguments), bucket.load()};
  // Two threads may add the same key: both entries say the same.
  while (!bucket.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
  return entry->output;
}

const mesh::Spec* Rule::infer(Inputs inputs, const Factors& factors) const { return infer(inputs, factors, options_); }

const mesh::Spec* Rule::infer(Inputs inputs, const Factors& factors, const RuleOptions& options) const {
  return PlacementRule(name_, inputs, factors, options).output();
}

}  // namespace weft::tensor
