// Ends waits that have a deadline where the wait itself cannot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace weft::comm {

// One thread for any number of deadlines. Safe from several threads.
class Alarm {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();

  // Calls `ring` at `time`, unless the entry is destroyed before; its destructor waits for a ring under way.
  class Entry {
   public:
    Entry(Alarm& alarm, Time time, std::function<void()> ring);
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry();

   private:
    friend class Alarm;
    Alarm& alarm_;
    std::function<void()> ring_;
    std::multimap<Time, Entry*>::iterator place_;
    bool rung_ = false;
  };

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Time, Entry*> entries_;
  Time asleep_until_ = Time::max();
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace weft::comm
