// Counts what a rank sends and receives, to be compared with what a plan says it should.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "comm/call.h"

namespace weft::comm {

struct TrafficKey {
  std::string group;
  Operation operation;
  std::string what;
  friend auto operator<=>(const TrafficKey&, const TrafficKey&) = default;
};
struct TrafficCount {
  int64_t calls = 0;
  // Of the calls' values as the communicator's interface has them: the numbers of an all-reduce, broadcast or message,
  // the whole source of a reduce-scatter and all-to-all, the whole target of an all-gather. What a back end moves for
  // them is its own affair.
  int64_t bytes = 0;
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};
using Traffic = std::map<TrafficKey, TrafficCount>;

// "" if they are equal; else a line for each key whose calls or bytes are not as expected.
[[nodiscard]] std::string difference(const Traffic& expected, const Traffic& counted);

// Safe from several threads.
class Recorder {
 public:
  void count(const TrafficKey& key, int64_t bytes);
  // Starts anew; from now on a call beyond the plan is refused before it is made, CommunicationError names it. Groups
  // of one are free.
  void allow(Traffic plan);
  void admit(const TrafficKey& key, int64_t bytes) const;
  [[nodiscard]] Traffic traffic() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  Traffic traffic_;
  std::optional<Traffic> plan_;
};

// The same world, whose groups count each call that was accepted. Both must outlive what is returned.
[[nodiscard]] std::unique_ptr<World> recorded(World& world, Recorder& recorder);

}  // namespace weft::comm
