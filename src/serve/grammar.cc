#include "serve/grammar.h"

#include "model/gbnf.h"
#include "serve/json_in.h"

namespace quire::serve {
namespace {

constexpr std::size_t kBytesMost = 16 << 10;

// Spaces are few, so that an answer cannot go on with nothing but spaces for ever.
constexpr const char* kJson = R"gbnf(root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( string ws ":" ws value ( ws "," ws string ws ":" ws value )* )? ws "}"
array ::= "[" ws ( value ( ws "," ws value )* )? ws "]"
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )?
ws ::= [ \n]{0,8}
)gbnf";

}  // namespace

Status check_grammar(std::string_view text) {
  if (text.empty()) return refuse_field("grammar", "empty");
  if (text.size() > kBytesMost) {
    return refuse_field("grammar", std::to_string(text.size()) + " bytes, over the limit of " +
                                       std::to_string(kBytesMost));
  }
  return model::check_gbnf(text, {});
}

const char* json_grammar() {
  return kJson;
}

}  // namespace quire::serve
