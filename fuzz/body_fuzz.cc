// Reads arbitrary bytes as both kinds of bodies: a request whose numbers are in range, or a
// refusal, never a crash; and the tools of a chat.  Seeds: fuzz/seeds.
//
//   build/fuzz/fuzz/quire_body_fuzz -max_len=4096 -max_total_time=60

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/chat_tools.h"
#include "serve/openai_body.h"

namespace {

constexpr std::size_t kMost = 1 << 16;

void read(const quire::serve::Json& object, quire::serve::Endpoint endpoint) {
  quire::serve::Body body{.endpoint = endpoint};
  const quire::Status status = quire::serve::read_body(object, body);
  if (status.ok() && body.chat.messages.empty() && endpoint == quire::serve::Endpoint::kChat)
    std::abort();
  if (status.ok() && body.request.options.max_tokens > 1u << 24) std::abort();
  if (!status.ok()) return;
  const quire::Result<quire::model::ChatTools> tools = quire::model::read_tools(body.chat);
  if (!tools.ok() && quire::serve::field_of(tools.status()).empty()) std::abort();
  if (tools.ok() && tools->called.size() > tools->shown.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const quire::Result<quire::serve::Json> object = quire::serve::parse_json(text, kMost);
  if (!object.ok()) return 0;
  read(*object, quire::serve::Endpoint::kChat);
  read(*object, quire::serve::Endpoint::kCompletions);
  return 0;
}
