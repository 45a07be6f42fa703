// Flags that several commands share, checked as they are read.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "quire/cache.h"
#include "quire/types.h"

namespace quire::cli {

// How a model and its cache are opened; the initial values are the defaults of every command.
struct EngineFlags {
  std::string model;
  std::string budget;  // empty: the context's bytes, at most half of the free memory
  std::string kv_type = "f16";
  std::string reclaim = "repack";
  std::string chat_template;  // instead of the file's: a name libllama knows
  std::string tune;           // a table of `quire tune`; empty: the defaults in the source
  std::uint32_t context = 0;  // 0: the model's
  std::uint32_t threads = 0;  // 0: the machine's cores
  std::uint32_t block_tokens = 16;
  std::uint32_t chunk = 512;
  bool deterministic = false;
  // What the cache keeps may outlive the process: it is known by the bytes of the model's files.
  bool hash_model = false;
};

CLI::Option* add_model_flag(CLI::App& app, EngineFlags& flags);
void add_cache_flags(CLI::App& app, EngineFlags& flags);
void add_template_flag(CLI::App& app, EngineFlags& flags);
void add_tune_flag(CLI::App& app, EngineFlags& flags);  // add_cache_flags adds it, too

// `flag` takes a number in [least, most]; "nan", "-1", "1x" and what is outside fail with its name.
template <typename T>
CLI::Option* add_number(CLI::App& app, const char* flag, T& value, T least, T most,
                        const std::string& about);
extern template CLI::Option* add_number<std::uint32_t>(CLI::App&, const char*, std::uint32_t&,
                                                       std::uint32_t, std::uint32_t,
                                                       const std::string&);
extern template CLI::Option* add_number<std::int32_t>(CLI::App&, const char*, std::int32_t&,
                                                      std::int32_t, std::int32_t,
                                                      const std::string&);
extern template CLI::Option* add_number<float>(CLI::App&, const char*, float&, float, float,
                                               const std::string&);

// What lies between the commas; of an empty text one empty piece.
std::vector<std::string> split_list(const std::string& list);

KvType kv_type_of(const std::string& name);
Reclaim reclaim_of(const std::string& name);

}  // namespace quire::cli
