// Kernels for any machine.
#include "kernels/levels.h"
#include "kernels/table_impl.h"
#include "kernels/vector_scalar.h"

namespace quire::kernels {
namespace {

constexpr Kernels kTable = table_of<ScalarVector>(Isa::kScalar);

}  // namespace

const Kernels& scalar_kernels() {
  return kTable;
}

}  // namespace quire::kernels
