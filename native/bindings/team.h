// The threads of training operators: one team for all of them, and one caller at a time.
#pragma once

#include <memory>
#include <mutex>

#include "base/team.h"

namespace ftbnn::training {

// What starts PyTorch's threads; null for threads of our own.
inline Team::Launch& launch() {
  static Team::Launch found = nullptr;
  return found;
}

// The team, made anew when the number of threads changes.
class TeamInUse {
 public:
  explicit TeamInUse(int threads) : lock_(mutex()) {
    if (!team() || team()->threads() != threads || team()->launch() != launch())
      team() = std::make_unique<Team>(threads, launch());
  }
  Team& operator*() { return *team(); }

 private:
  static std::mutex& mutex() {
    static std::mutex found;
    return found;
  }
  static std::unique_ptr<Team>& team() {
    static std::unique_ptr<Team> found;
    return found;
  }
  std::lock_guard<std::mutex> lock_;
};

}  // namespace ftbnn::training
