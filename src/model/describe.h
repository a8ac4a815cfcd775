// From the configuration tree to the description.
#pragma once

#include "model/description.h"
#include "model/nodes.h"

namespace weft::model {

// Checks what the nodes demand of each other (key/value heads divide heads, learned positions need a number of them,
// ...), then describes the model. The tree must outlive the result and stay unchanged. Throws InputError naming the
// field.
[[nodiscard]] ModelDescription describe(const ModelNode& model);

// The name of a segment's kind, for tables and messages: "query_key_value".
[[nodiscard]] std::string_view segment_kind_name(SegmentKind kind);
// The name of a parameter's class: "hidden_matrix".
[[nodiscard]] std::string_view parameter_class_name(ParameterClass parameter_class);

}  // namespace weft::model
