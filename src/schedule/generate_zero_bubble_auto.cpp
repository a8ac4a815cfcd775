#include "base/error.h"
#include "schedule/generators.h"
namespace weft::schedule {
void fill_zero_bubble_auto(const GenerateOptions&, Schedule&) { throw InputError("zb-auto is not made yet"); }
void fill_v_pattern(Kind, const GenerateOptions&, Schedule&) { throw InputError("v-half and v-min are not made yet"); }
}  // namespace weft::schedule
