#include "model/chat.h"
#include "model/schema.h"

#ifdef QUIRE_LLAMA_CHAT
#include <llama-chat/json-schema-to-grammar.h>
#include <llama-chat/json.h>

#include "llama-cpp.h"
#include "llama.h"
#include "model/bounded.h"
#include "model/gbnf.h"
#include "model/text.h"
#endif

namespace quire::model {

#ifdef QUIRE_LLAMA_CHAT

bool has_full_templates() {
  return true;
}

Result<std::string> grammar_of_schema(std::string_view schema) {
  Result<Json> json = read_json(schema, "schema", kMaxSchemaBytes);
  if (!json.ok()) return json.status();
  Result<Json> plain = plain_schema(*std::move(json), "schema");
  if (!plain.ok()) return plain.status();
  std::string grammar;
  const Effort effort = Effort::for_input(schema.size());
  Status status = bounded("schema", effort, [&] {
    grammar = json_schema_to_grammar(common_json::parse(plain->dump()), true);
    // Compiled once here, so that a grammar which libllama refuses is refused now.
    if (Status checked = check_gbnf(grammar, kOurGbnf); !checked.ok()) {
      throw std::invalid_argument(checked.message());
    }
    silence_libraries();
    (void)take_library_error();
    const llama_sampler_ptr compiled(llama_sampler_init_grammar(nullptr, grammar.c_str(), "root"));
    if (compiled == nullptr) throw std::invalid_argument(take_library_error());
  });
  if (!status.ok()) return status;
  return grammar;
}

#else

bool has_full_templates() {
  return false;
}

Result<std::string> grammar_of_schema(std::string_view schema) {
  Result<Json> json = read_json(schema, "schema", kMaxSchemaBytes);
  if (!json.ok()) return json.status();
  return Status(Code::kUnsupported, "schema: this build has no llama-chat, which makes grammars");
}

#endif

}  // namespace quire::model
