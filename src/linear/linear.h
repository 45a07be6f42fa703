// Linear layers on quantized weights: pointers and sizes only, one table per instruction set.
//
// Weights lie in panels of 16 outputs, in the codes of the GGUF file (nothing is rounded again):
// see layout.h.  Activations are rounded to 8 bits in groups of 32 inputs, one scale a group.
//
// Order of additions.  The same on every instruction set, for every number of rows and threads (so
// results are memcmp-equal, also to the reference).  For output n of a row, from acc = +0, over the
// groups g = 0, 1, ...:
//   isum = sum over the group of (code - zero) * activation      exact, in integers
//   acc  = fma(float(isum), dw * da, acc)                        dw, da: scales of weight, row
//   acc  = fma(mw, da * float(sum of activations), acc)          formats with a minimum only
// Q6_K has a scale per 16 inputs: its groups are added in halves.  out = (acc + bias) + residual.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quire/cache.h"

namespace quire::linear {

constexpr std::uint32_t kGroup = 32;       // inputs that share a scale
constexpr std::uint32_t kPanel = 16;       // outputs of a panel
constexpr std::uint32_t kSuperGroups = 8;  // groups under one super-scale (K-quants)
constexpr std::uint32_t kBlockRows = 64;   // rows of activations that lie together
constexpr std::size_t kRecordBytes = 48;   // of one row's group: see RowRecord

// Quantizations of GGUF files that have a kernel here.
enum class Format : std::uint8_t { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };
constexpr std::uint32_t kFormats = 8;

// A weight of `outputs` x `inputs`.
struct Matrix {
  const std::byte* data = nullptr;  // panels, 64-byte aligned
  Format format = Format::kQ4_0;
  std::uint32_t inputs = 0, outputs = 0;  // inputs: a multiple of row_inputs(format)
};

// Quantized activations: blocks of kBlockRows rows (the last one shorter); in a block of R rows the
// record of group g of row r is at ((g * R) + r) * kRecordBytes.
struct RowRecord {
  std::int8_t code[kGroup];
  float scale;             // da
  float sum;               // da * sum of the codes
  std::int32_t minus_sum;  // -(sum of the codes)
  std::int32_t minus_low;  // -(sum of the first 16)
};
static_assert(sizeof(RowRecord) == kRecordBytes);

enum class Activation : std::uint8_t { kSilu, kGelu };

// Query or key heads of some rows: head h of row r at x + (r * heads + h) * size, and so in out.
struct Heads {
  const float* x;
  float* out;
  std::uint32_t heads, size;  // size: a multiple of 16, at most kMostHead
  std::uint32_t dims;         // the first ones of a head are rotated, in pairs
  bool halves;                // pairs (i, i + dims / 2), else (2 i, 2 i + 1)
  const float* norm;          // [size]: a head is RMS-normed first; or null
  float epsilon;
};
constexpr std::uint32_t kMostHead = 512;

// Everything a level offers.  All functions are reentrant; they work on rows [begin, end) of
// `rows`, dense in memory, and write the records of these.  `inputs` is a multiple of 32.
struct Kernels {
  Isa isa;
  // Of the records: bytes of a row's group, and what the number of rows is rounded up to.
  std::uint32_t record_bytes, record_rows;

  // Rounds x [rows][inputs] to records: code = round to nearest even (x * (127 / max |x|)),
  // scale = max |x| / 127.  A NaN or an infinity becomes the group's scale, so that it reaches
  // every output.
  void (*quantize)(const float* x, std::uint32_t rows, std::uint32_t inputs, std::uint32_t begin,
                   std::uint32_t end, std::byte* records);
  // The same of x / sqrt(mean(x^2) + epsilon) * weight (arXiv 1910.07467).
  void (*normalize)(const float* x, const float* weight, float epsilon, std::uint32_t rows,
                    std::uint32_t inputs, std::uint32_t begin, std::uint32_t end,
                    std::byte* records);
  // The same of activation(gate) * up (arXiv 2002.05202).
  void (*activate)(Activation activation, const float* gate, const float* up, std::uint32_t rows,
                   std::uint32_t inputs, std::uint32_t begin, std::uint32_t end,
                   std::byte* records);
  // Rotates heads (arXiv 2104.09864); table [rows][dims]: what becomes of the pairs (1, 0).
  void (*rotate)(const Heads& heads, const float* table, std::uint32_t begin, std::uint32_t end);

  // out[r][n] = product + bias[n] + add[r][n], for all rows and the outputs n of panels
  // [begin, end); out and add: [rows][outputs]; bias and add may be null, add may be out.
  void (*multiply)(const Matrix& weight, const float* bias, const float* add,
                   const std::byte* records, std::uint32_t rows, std::uint32_t begin,
                   std::uint32_t end, float* out);

  // Faster ones for many rows, with records of their own form and other bits than these: for those
  // who do not mind that a row's bits depend on the number of rows.  Or null.
  const Kernels* chunk = nullptr;
};
constexpr std::uint32_t kChunkRows = 64;  // "many", where `quire tune` did not measure it

constexpr std::size_t rows_bytes(const Kernels& kernels, std::uint32_t rows, std::uint32_t inputs) {
  const std::size_t all = (rows + kernels.record_rows - 1) / kernels.record_rows;
  return all * kernels.record_rows * (inputs / kGroup) * kernels.record_bytes;
}

// The best level of this machine at most `limit` (kAuto: no limit); kScalar always exists.
const Kernels& kernels_for(Isa limit);

// --- weights ---
constexpr std::uint32_t panels(std::uint32_t outputs) {
  return (outputs + kPanel - 1) / kPanel;
}
std::uint32_t row_inputs(Format format);  // inputs of a weight must be a multiple of this
std::size_t source_bytes(Format format, std::uint32_t inputs);  // of one output in the file
std::size_t panel_bytes(Format format, std::uint32_t inputs);
inline std::size_t matrix_bytes(Format format, std::uint32_t inputs, std::uint32_t outputs) {
  return panels(outputs) * panel_bytes(format, inputs);
}
// Rearranges outputs [16 p, 16 p + 16) of the file's rows (output after output) into panel p.
void pack_panel(Format format, const std::byte* source, std::uint32_t inputs, std::uint32_t outputs,
                std::uint32_t panel, std::byte* data);
// The weights of one output as f32: what the file's codes stand for.
void unpack_output(const Matrix& weight, std::uint32_t output, float* to);

}  // namespace quire::linear
