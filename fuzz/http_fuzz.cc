// Reads arbitrary bytes as a request of HTTP: a request, a refusal or a wish for more, never a
// crash, and the same however the bytes are cut.  What is a request goes on: who may ask, and its
// body.
//
//   build/fuzz/fuzz/quire_http_fuzz -max_len=4096 -max_total_time=60

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/access.h"
#include "serve/openai_body.h"
#include "serve/request_reader.h"
#include "serve/routes.h"

namespace {

using namespace quire::serve;
using Stage = RequestReader::Stage;

struct Outcome {
  Stage stage;
  int status = 0;
  std::string path, body;
  bool operator==(const Outcome&) const = default;
};

// As a connection does: `piece` bytes come at a time.
Outcome read(std::string_view bytes, std::size_t piece, const Limits& limits) {
  RequestReader reader(limits);
  std::string waiting;
  while (reader.stage() != Stage::kWhole && reader.stage() != Stage::kRefused) {
    const Stage before = reader.stage();
    const std::size_t used = reader.put(waiting);
    if (used > waiting.size()) std::abort();
    waiting.erase(0, used);
    if (used > 0 || reader.stage() != before) continue;
    if (bytes.empty()) break;
    const std::size_t count = std::min(piece, bytes.size());
    waiting += bytes.substr(0, count);
    bytes.remove_prefix(count);
  }
  Outcome outcome{.stage = reader.stage()};
  if (reader.stage() == Stage::kRefused) outcome.status = reader.refusal().status;
  if (reader.stage() != Stage::kWhole) return outcome;
  outcome.path = reader.head().path;
  const Access access{.keys = {"a-key-of-letters"}, .remote = true};
  const Found found = find_route(reader.head().method, outcome.path);
  const bool open = found.entry != nullptr && found.entry->open;
  if (const auto refusal = refuse_access(access, reader.head(), open)) {
    outcome.status = refusal->status;
  }
  outcome.body = reader.take_body();
  if (outcome.body.size() > limits.body_bytes) std::abort();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Limits limits{.header_bytes = 1024, .body_bytes = 2048};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read(text, size + 1, limits);
  const Outcome cut = read(text, size > 0 ? data[0] % 61 + 1 : 1, limits);
  // Where a limit is passed, how much was there decides which of two refusals it is.
  const bool refused = whole.stage == Stage::kRefused || cut.stage == Stage::kRefused;
  if (!refused && !(whole == cut)) std::abort();
  if (whole.stage == Stage::kWhole) {
    const auto object = parse_json(whole.body, limits.body_bytes);
    Body body;
    if (object.ok() && read_body(*object, body).ok() && body.chat.messages.empty()) std::abort();
  }
  return 0;
}
