// Work cut into units that threads do in any order and one thread collects in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace weft::data {

// Calls work(unit) for each unit that next() gives, in `threads` threads, and consume(result) in the calling thread, in
// the order of the units; next() is called in the calling thread too. At most three units a thread are under way. An
// exception of any of the three ends everything and is thrown: work's when its unit's turn comes.
template <class Unit, class Result>
void work_in_order(size_t threads, const std::function<std::optional<Unit>()>& next,
                   const std::function<Result(const Unit&)>& work, const std::function<void(Result)>& consume) {
  struct Done {
    std::optional<Result> result;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<size_t, Unit>> waiting;
  std::map<size_t, Done> done;
  bool stop = false;

  const auto run = [&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !waiting.empty(); });
      if (stop) return;
      const auto [number, unit] = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      Done finished;
      try {
        finished.result = work(unit);
      } catch (...) {
        finished.error = std::current_exception();
      }
      lock.lock();
      done.emplace(number, std::move(finished));
      changed.notify_all();
    }
  };

  struct Crew {
    std::mutex& mutex;
    std::condition_variable& changed;
    bool& stop;
    std::vector<std::thread> threads;
    ~Crew() {
      {
        const std::lock_guard lock(mutex);
        stop = true;
      }
      changed.notify_all();
      for (std::thread& thread : threads) thread.join();
    }
  } crew{mutex, changed, stop, {}};
  for (size_t i = 0; i < threads; ++i) crew.threads.emplace_back(run);

  size_t given = 0, taken = 0;
  bool more = true;
  while (true) {
    while (more && given - taken < 3 * threads) {
      std::optional<Unit> unit = next();
      more = unit.has_value();
      if (!more) break;
      {
        const std::lock_guard lock(mutex);
        waiting.emplace_back(given++, std::move(*unit));
      }
      changed.notify_all();
    }
    if (taken == given) return;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done.contains(taken); });
    Done finished = std::move(done.extract(taken).mapped());
    lock.unlock();
    ++taken;
    if (finished.error) std::rethrow_exception(finished.error);
    consume(std::move(*finished.result));
  }
}

}  // namespace weft::data
