// A family's table of kernels, best first: the first row whose features are there is the one to use.
//
// Every family has one, in its folder's table.cc: a row is a name, the features it needs, and its functions. Dispatch,
// tests and benchmarks choose from it. The last row needs nothing, so there is always one.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace ftbnn {

template <typename Kernels>
struct Row {
  const char* name;
  Features needs;
  Kernels kernels;

  bool runs_with(Features usable) const { return (usable & needs) == needs; }
};

template <typename Kernels>
class Table {
 public:
  Table(std::initializer_list<Row<Kernels>> rows) : rows_(rows) {}

  const Row<Kernels>& best(Features usable) const {
    return best(usable, [](const Kernels&) { return true; });
  }

  // The best of those that are good for something.
  template <typename Suits>
  const Row<Kernels>& best(Features usable, const Suits& suits) const {
    for (const Row<Kernels>& row : rows_) {
      if (row.runs_with(usable) && suits(row.kernels)) return row;
    }
    return rows_.back();
  }

  // Null if there is no such row, or not with these features.
  const Row<Kernels>* named(const std::string& name, Features usable) const {
    for (const Row<Kernels>& row : rows_) {
      if (name == row.name && row.runs_with(usable)) return &row;
    }
    return nullptr;
  }

  const std::vector<Row<Kernels>>& rows() const { return rows_; }

  std::vector<std::string> names(Features usable) const {
    std::vector<std::string> found;
    for (const Row<Kernels>& row : rows_) {
      if (row.runs_with(usable)) found.emplace_back(row.name);
    }
    return found;
  }

 private:
  std::vector<Row<Kernels>> rows_;
};

}  // namespace ftbnn
