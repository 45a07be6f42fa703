// The kernels of each instruction set, for dispatch.cc to choose from.
#pragma once

#include "kernels/kernels.h"

namespace quire::kernels {

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();    // x86-64 only
const Kernels& avx512_kernels();  // x86-64 only
const Kernels& amx_kernels();     // x86-64 only; for chunks, see Kernels::chunk

}  // namespace quire::kernels
