// [parallel] and [comm]: how the ranks of a run divide its work, and how they reach each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/node.h"

namespace weft::run {

struct ParallelNode : config::Node {
  WEFT_NODE(ParallelNode, "parallel")
  void fields(config::FieldList& list) override;

  int64_t pipeline = 1;
  int64_t data = 1;
  int64_t fsdp = 1;
  int64_t tensor = 1;
  int64_t context = 1;
  bool sequence = false;
  std::optional<int64_t> zero;  // unset: 3 with fsdp > 1, else 0
  int64_t whole_stages = 2;
  int64_t whole_buckets = 2;
};

struct CommNode : config::Node {
  WEFT_NODE(CommNode, "comm")
  void fields(config::FieldList& list) override;

  std::string backend = "gloo";
  std::string address;    // empty: the launcher's
  int64_t port = 0;       // 0: the launcher's
  std::string interface;  // empty: the one that reaches the address
  double timeout = 600;
};

}  // namespace weft::run
