// Locks; where a build has no threads (WebAssembly), there is nothing to lock.
#pragma once

#if !defined(FTBNN_ONE_THREAD)
#include <mutex>
#endif

namespace ftbnn {

#if defined(FTBNN_ONE_THREAD)

struct Mutex {};

struct Lock {
  explicit Lock(Mutex&) {}
};

struct TryLock {
  explicit TryLock(Mutex&) {}
  bool owns_lock() const { return true; }
};

#else

using Mutex = std::mutex;
using Lock = std::lock_guard<Mutex>;

struct TryLock : std::unique_lock<Mutex> {
  explicit TryLock(Mutex& mutex) : std::unique_lock<Mutex>(mutex, std::try_to_lock) {}
};

#endif

}  // namespace ftbnn
