// Links over a c10d gloo process group.
#pragma once

#include <memory>

#include "comm/call.h"
#include "comm/gloo/alarm.h"
#include "comm/links.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace weft::comm {

struct GlooOptions {
  std::string interface;  // to listen on; empty: `address`
  std::string address;    // of this machine, to listen on
  std::chrono::milliseconds timeout;
};

// Connects the group's members, who meet under `key` in the store. CommunicationError if the members do not come in
// time, InputError if there is no such interface.
[[nodiscard]] std::unique_ptr<Links> connect_gloo(c10d::Store& store, const GroupName& group, const std::string& key,
                                                  const GlooOptions& options, std::shared_ptr<Alarm> alarm);

}  // namespace weft::comm
