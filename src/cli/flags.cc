// Shared flags.

#include "cli/flags.h"

#include <algorithm>
#include <sstream>

#include "engine/generate.h"

namespace quire::cli {
namespace {

template <typename T>
std::string range_text(T least, T most) {
  std::ostringstream text;
  text << least << " to " << most;
  return text.str();
}

}  // namespace

template <typename T>
CLI::Option* add_number(CLI::App& app, const char* flag, T& value, T least, T most,
                        const std::string& about) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T number{};
    if (CLI::detail::lexical_cast(text, number) && number >= least && number <= most) return {};
    return "\"" + text + "\" is not a number from " + range_text(least, most);
  };
  return app.add_option(flag, value, about)->check(check)->type_name("N")->capture_default_str();
}

template CLI::Option* add_number<std::uint32_t>(CLI::App&, const char*, std::uint32_t&,
                                                std::uint32_t, std::uint32_t, const std::string&);
template CLI::Option* add_number<std::int32_t>(CLI::App&, const char*, std::int32_t&, std::int32_t,
                                               std::int32_t, const std::string&);
template CLI::Option* add_number<float>(CLI::App&, const char*, float&, float, float,
                                        const std::string&);

CLI::Option* add_model_flag(CLI::App& app, EngineFlags& flags) {
  return app.add_option("-m,--model", flags.model, "GGUF file (of a split model, its first part)")
      ->type_name("FILE");
}

void add_template_flag(CLI::App& app, EngineFlags& flags) {
  app.add_option("--chat-template", flags.chat_template,
                 "Write chats in this form instead of the file's: chatml, llama3, gemma, ...")
      ->type_name("NAME");
}

void add_tune_flag(CLI::App& app, EngineFlags& flags) {
  app.add_option("--tune", flags.tune, "Take row counts from this table of `quire tune`")
      ->type_name("FILE");
}

void add_cache_flags(CLI::App& app, EngineFlags& flags) {
  app.add_option("--budget", flags.budget,
                 "Bytes the cache may use, never exceeded: 64MiB, 1.5GiB\n"
                 "(default: the context's, at most half of the free memory)")
      ->type_name("SIZE")
      ->check([](const std::string& text) {
        const Result<std::size_t> bytes = engine::parse_bytes(text);
        return bytes.ok() ? std::string() : bytes.status().message();
      });
  app.add_option("--kv-type", flags.kv_type, "How keys and values are stored: f16, bf16, f32")
      ->type_name("TYPE")
      ->check([](const std::string& text) -> std::string {
        if (text == "f16" || text == "bf16" || text == "f32") return {};
        return "\"" + text + "\" is none of f16, bf16, f32";
      })
      ->capture_default_str();
  add_number(app, "--ctx", flags.context, 0u, 1u << 24,
             "Tokens of prompt and answer, at most; 0: the model's");
  add_number(app, "--threads", flags.threads, 0u, 1024u, "Threads; 0: the machine's cores");
  app.add_option("--block-tokens,--block", flags.block_tokens,
                 "Tokens of a cache block: 8, 16, 32, 64")
      ->type_name("N")
      ->check([](const std::string& text) -> std::string {
        if (text == "8" || text == "16" || text == "32" || text == "64") return {};
        return "\"" + text + "\" is none of 8, 16, 32, 64";
      })
      ->capture_default_str();
  app.add_option("--reclaim", flags.reclaim,
                 "When dropped entries' bytes are free again: never (with their sequence), whole\n"
                 "(with the last entry of a block), repack (survivors move together)")
      ->type_name("WHEN")
      ->check([](const std::string& text) -> std::string {
        if (text == "never" || text == "whole" || text == "repack") return {};
        return "\"" + text + "\" is none of never, whole, repack";
      })
      ->capture_default_str();
  add_number(app, "--chunk", flags.chunk, 1u, 4096u, "Prompt tokens computed in one step, at most");
  app.add_flag("--deterministic", flags.deterministic,
               "One linear path for every row count: bit-equal logits however the prompt is cut");
  add_tune_flag(app, flags);
}

Reclaim reclaim_of(const std::string& name) {
  if (name == "never") return Reclaim::kNever;
  return name == "whole" ? Reclaim::kWhole : Reclaim::kRepack;
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    found.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

KvType kv_type_of(const std::string& name) {
  if (name == "bf16") return KvType::kBF16;
  return name == "f32" ? KvType::kF32 : KvType::kF16;
}

}  // namespace quire::cli
