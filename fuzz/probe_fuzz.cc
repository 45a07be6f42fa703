// Reads arbitrary bytes as a probe, with a fingerprint that fits so that all that follows is
// reached, and labels with what was read: refused, or written again to the same bytes.
//
//   build/fuzz/fuzz/quire_probe_fuzz -max_len=65536 -max_total_time=60

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "roles/fingerprint.h"
#include "roles/probe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size >= 8) {
    roles::Fingerprint fingerprint;
    fingerprint.add(std::string_view(bytes).substr(0, size - 8));
    const std::uint64_t value = fingerprint.value();
    std::memcpy(&bytes[size - 8], &value, 8);
  }
  const Result<roles::Probe> probe = roles::read_probe(bytes);
  const std::string_view text(bytes);
  std::vector<Token> tokens;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < text.size(); ++i) {
    tokens.push_back(static_cast<unsigned char>(text[i]));
    ends.push_back(i + 1);
  }
  const std::vector<std::uint8_t> states = roles::text_states(text, ends);
  for (const std::uint8_t state : states) {
    if (state >= roles::kTextStates) std::abort();
  }
  if (!probe.ok()) return 0;
  if (roles::write_probe(*probe) != bytes) std::abort();
  if (roles::label_tokens(*probe, tokens, states).size() != tokens.size()) std::abort();
  return 0;
}
