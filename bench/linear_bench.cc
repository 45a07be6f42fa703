// Linear kernels, one thread: products a second by format, level and rows, and for one row the
// bytes of weights a second.
//
// Usage: quire_linear_bench [INPUTS OUTPUTS]      (default: 576 1536, SmolLM2's feed-forward)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "linear/linear.h"

namespace {

using namespace quire::linear;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call: the best of many short runs.
template <typename Call>
double best_seconds(Call call) {
  double best = 1e9;
  for (int run = 0; run < 40; ++run) {
    int calls = 0;
    const double start = now();
    double passed = 0;
    do {
      call();
      ++calls;
      passed = now() - start;
    } while (passed < 0.003);
    best = std::min(best, passed / calls);
  }
  return best;
}

void measure(Format format, const char* name, quire::Isa isa, std::uint32_t inputs,
             std::uint32_t outputs, std::uint32_t rows) {
  const Kernels& kernels = kernels_for(isa);
  // One row streams weights from memory: as many copies as do not fit the caches.
  const std::size_t bytes = matrix_bytes(format, inputs, outputs);
  const std::size_t copies = rows == 1 ? (std::size_t{512} << 20) / bytes + 1 : 1;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (bytes * copies + 63) / 64 * 64)), std::free);
  for (std::size_t i = 0; i < bytes * copies; ++i)
    memory.get()[i] = static_cast<std::byte>(i * 37 & 51);
  std::vector<float> x(std::size_t{rows} * inputs), out(std::size_t{rows} * outputs);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  std::vector<std::byte> records(rows_bytes(kernels, rows, inputs));
  const double quantize =
      best_seconds([&] { kernels.quantize(x.data(), rows, inputs, 0, rows, records.data()); });
  std::size_t copy = 0;
  const double multiply = best_seconds([&] {
    const Matrix weight{memory.get() + copy++ % copies * bytes, format, inputs, outputs};
    kernels.multiply(weight, nullptr, nullptr, records.data(), rows, 0, panels(outputs),
                     out.data());
  });
  std::printf("%-5s %-11s rows %3u: %7.1f Gop/s, weights %5.1f GB/s, quantize %5.2f ns a value\n",
              name, name_of(isa), rows, 2.0 * rows * inputs * outputs / multiply / 1e9,
              static_cast<double>(bytes) / multiply / 1e9,
              quantize / (double{1} * rows * inputs) * 1e9);
}

}  // namespace

int main(int count, char** arguments) {
  const auto number = [&](int i, int otherwise) {
    return static_cast<std::uint32_t>(count > i ? std::atoi(arguments[i]) : otherwise);
  };
  const std::uint32_t inputs = number(1, 576), outputs = number(2, 1536);
  constexpr const char* kNames[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
  for (std::uint32_t format = 0; format < kFormats; ++format) {
    if (inputs % row_inputs(static_cast<Format>(format)) != 0) continue;
    for (const quire::Isa isa : {quire::Isa::kAvx2, quire::Isa::kAvxVnni, quire::Isa::kAvx512,
                                 quire::Isa::kAvx512Vnni, quire::Isa::kAmx}) {
      if (!quire::kernels::machine_has(isa)) continue;
      for (const std::uint32_t rows : {1u, 4u, 16u, 512u}) {
        measure(static_cast<Format>(format), kNames[format], isa, inputs, outputs, rows);
      }
    }
  }
}
