// The kernels of each instruction set, for dispatch.cc to choose from.
#pragma once

#include <algorithm>
#include <cstring>

#include "linear/linear.h"

namespace quire::linear {

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();  // x86-64 only, as all below
const Kernels& avxvnni_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512vnni_kernels();
const Kernels& amx_kernels();
const Kernels& amx_chunk_kernels();

// Static, as files of different instruction sets include them.

// Bytes from the first record to that of a row's group.
[[maybe_unused]] static constexpr std::size_t record_offset(std::uint32_t rows,
                                                            std::uint32_t inputs, std::uint32_t row,
                                                            std::uint32_t group) {
  const std::uint32_t first = row - row % kBlockRows;
  const std::uint32_t block = std::min(kBlockRows, rows - first);
  return (std::size_t{first} * (inputs / kGroup) + std::size_t{group} * block + (row - first)) *
         kRecordBytes;
}

// What a record says of its codes, whose sum is `sum` and that of the first 16 `low`.
[[maybe_unused]] static inline void write_sums(std::byte* record, float scale, std::int32_t sum,
                                               std::int32_t low) {
  const float scaled = scale * static_cast<float>(sum);
  const std::int32_t minus[] = {-sum, -low};
  std::memcpy(record + offsetof(RowRecord, scale), &scale, sizeof scale);
  std::memcpy(record + offsetof(RowRecord, sum), &scaled, sizeof scaled);
  std::memcpy(record + offsetof(RowRecord, minus_sum), minus, sizeof minus);
}

}  // namespace quire::linear
