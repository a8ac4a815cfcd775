#include "comm/one.h"

#include <cstring>

#include "comm/call.h"

namespace weft::comm {
namespace {

class DoneWork : public Work {
 public:
  void wait() override {}
};

class OneCommunicator : public CheckedCommunicator {
 public:
  using CheckedCommunicator::CheckedCommunicator;
  void abort(const std::string& /*reason*/) override {}  // no call is ever under way

 protected:
  Handle start(Call call) override {
    if (call.source.data != call.target.data && call.target.bytes() > 0) {
      std::memmove(call.target.data, call.source.data, static_cast<size_t>(call.target.bytes()));
    }
    return std::make_unique<DoneWork>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_group_of_one(const std::string& name, int rank) {
  return std::make_unique<OneCommunicator>(GroupName{name, {rank}, 0});
}

std::unique_ptr<Communicator> OneWorld::make_group(std::span<const int> ranks, const std::string& name) {
  static_cast<void>(checked_group(ranks, name, 0, 1));
  return make_group_of_one(name, 0);
}

}  // namespace weft::comm
