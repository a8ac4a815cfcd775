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
  if (time < alarm_.asleep_until_) alarm_.changed_.notify_all();
}

Alarm::Entry::~Entry() {
  const std::lock_guard lock(alarm_.mutex_);
  if (!rung_) alarm_.entries_.erase(place_);
}

void Alarm::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const Time now = std::chrono::steady_clock::now();
    // Entries that go do not wake the thread: one that finds nothing to do sleeps again.
    asleep_until_ = entries_.empty() ? now + std::chrono::hours(1) : entries_.begin()->first;
    if (now < asleep_until_) {
      changed_.wait_until(lock, asleep_until_);
      continue;
    }
    Entry* const entry = entries_.begin()->second;
    entries_.erase(entries_.begin());
    entry->rung_ = true;
    entry->ring_();
  }
}

}  // namespace weft::comm
