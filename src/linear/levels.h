// The kernels of each instruction set, for dispatch.cc to choose from.
#pragma once

#include <algorithm>

#include "linear/linear.h"

namespace quire::linear {

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();  // x86-64 only, as all below
const Kernels& avxvnni_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512vnni_kernels();
const Kernels& amx_kernels();
const Kernels& amx_chunk_kernels();

// Bytes from the first record to that of a row's group.
constexpr std::size_t record_offset(std::uint32_t rows, std::uint32_t inputs, std::uint32_t row,
                                    std::uint32_t group) {
  const std::uint32_t first = row - row % kBlockRows;
  const std::uint32_t block = std::min(kBlockRows, rows - first);
  return (std::size_t{first} * (inputs / kGroup) + std::size_t{group} * block + (row - first)) *
         kRecordBytes;
}

}  // namespace quire::linear
