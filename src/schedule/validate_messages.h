// The part of the lowered validator that judges what roles say to each other (schedule.h, validate).
#pragma once

#include "schedule/schedule.h"

namespace weft::schedule {

// Between two roles, messages of one direction start in one order at both ends; each start is waited for once, behind
// it; loss, norm and borrowed buckets come in one order at all who take part. Then runs the lists as if a Send ended
// only when its Receive is posted. Throws Invalid (invalid.h) with what does not meet, or the waits that no role gets
// out of.
void validate_messages(const Schedule& schedule);

}  // namespace weft::schedule
