// The table of one instruction set.
#pragma once

#include "kernels/append_impl.h"
#include "kernels/attend_impl.h"
#include "kernels/feature_impl.h"
#include "kernels/kernels.h"
#include "kernels/merge_impl.h"
#include "kernels/moments_impl.h"
#include "kernels/query_impl.h"

namespace quire::kernels {
namespace {

template <typename V>
constexpr Kernels table_of(Isa isa) {
  return {isa,
          append<V>,
          attend<V>,
          attend_tiles<V>,
          merge<V>,
          add_moments<V>,
          norms<V>,
          alignment<V>,
          spread<V>,
          similarity<V>,
          add_queries<V>,
          expect<V>,
          add_output_norms<V>,
          copy_entries};
}

}  // namespace
}  // namespace quire::kernels
