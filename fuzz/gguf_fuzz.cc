// Opens arbitrary bytes as a GGUF model: a Status or a model, never a crash.  Bytes that are no
// GGUF file are one input in two; the others start as a tiny valid model and have the input written
// over a stretch of its metadata, which random bytes alone would never reach.
//
//   build/fuzz/fuzz/quire_gguf_fuzz -max_len=4096 -max_total_time=60

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "model/model.h"
#include "support/tiny_model.h"

namespace {

// A file in memory, with a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("gguf_fuzz", 0)) {
    if (descriptor_ < 0) std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void write(const std::string& bytes) {
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) !=
                                                static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  std::string read() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  int descriptor_;
};

std::string tiny_model() {
  MemoryFile file;
  const quire::test::TinyModel tiny{
      .layers = 1, .heads = 2, .kv_heads = 1, .feed_forward = 32, .rope_scaling = "yarn"};
  if (!quire::test::write_tiny_model(tiny, file.path())) std::abort();
  return file.read();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  static const std::string valid = tiny_model();
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > 3 && data[0] % 2 == 1) {
    const std::size_t metadata = valid.find("token_embd.weight") + 1024;
    const std::size_t at = (data[1] | data[2] << 8) % metadata;
    bytes = valid;
    std::memcpy(bytes.data() + at, data + 3, std::min(size - 3, bytes.size() - at));
  }
  file.write(bytes);
  auto model = quire::model::Model::load({.path = file.path(), .threads = 1});
  if (!model.ok() && model.status().message().empty()) std::abort();
  return 0;
}
