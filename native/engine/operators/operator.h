// The operators that a file may have: one file each, and a row in table.cc.
#pragma once

#include <memory>

#include "base/cpu.h"
#include "engine/fields.h"
#include "engine/step.h"

namespace ftbnn {

struct OperatorKind {
  std::uint8_t number;  // in the file
  const char* name;
  std::uint32_t version;  // of the file, from which on there is such
  bool takes_several;     // inputs
  int weight_bits;        // 0: no weights, or the file says how many
  void (*read)(Fields& fields);
  std::unique_ptr<Step> (*plan)(const Operator& op, const Planning& planning);
};

const OperatorKind* operator_kind(int number);  // null if there is none

}  // namespace ftbnn
