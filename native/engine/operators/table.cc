#include "engine/operators/operator.h"

namespace ftbnn {

extern const OperatorKind conv_kind, bconv_kind, linear_kind, max_pool_kind, avg_pool_kind, average_to_kind,
    concat_kind, channels_kind, pointwise_kind, flatten_kind, rounded_conv_kind, combine_kind, map_kind, abs_kind;

const OperatorKind* operator_kind(int number) {
  static const OperatorKind* const kinds[] = {
      &conv_kind,         &bconv_kind,   &linear_kind,   &max_pool_kind,  &avg_pool_kind,
      &average_to_kind,   &concat_kind,  &channels_kind, &pointwise_kind, &flatten_kind,
      &rounded_conv_kind, &combine_kind, &map_kind,
#if defined(FTBNN_TESTS)
      &abs_kind,
#endif
  };
  for (const OperatorKind* kind : kinds) {
    if (kind->number == number) return kind;
  }
  return nullptr;
}

}  // namespace ftbnn
