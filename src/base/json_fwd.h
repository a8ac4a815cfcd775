// The names of weft's JSON types, for headers; base/json.h has the rest and is for sources.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weft {

using Json = nlohmann::json;  // keys sorted: for what is read
using OrderedJson =
    nlohmann::ordered_json;  // keys in order of insertion (linear search): for small things that are written

}  // namespace weft
