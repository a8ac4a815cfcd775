#include "comm/gloo/alarm.h"

namespace weft::comm {

Alarm::Alarm() : thread_([this] { run(); }) {}

Alarm::~Alarm() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Alarm::Entry::Entry(Alarm& alarm, Time time, std::function<void()> ring) : alarm_(alarm), ring_(std::move(ring)) {
  const std::lock_guard lock(alarm_.mutex_);
  place_ = alarm_.entries_.emplace(time, this);
  if (place_ == alarm_.entries_.begin()) alarm_.changed_.notify_all();
}

Alarm::Entry::~Entry() {
  const std::lock_guard lock(alarm_.mutex_);
  if (!rung_) alarm_.entries_.erase(place_);
}

void Alarm::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [time, entry] = *entries_.begin();
    if (std::chrono::steady_clock::now() < time) {
      changed_.wait_until(lock, time);
      continue;
    }
    entries_.erase(entries_.begin());
    entry->rung_ = true;
    entry->ring_();
  }
}

}  // namespace weft::comm
