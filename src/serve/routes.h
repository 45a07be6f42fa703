// Every path there is, and who may ask for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::serve {

enum class Route : std::uint8_t {
  kChat,
  kCompletions,
  kModels,
  kModel,
  kHealth,
  kReady,
  kMetrics,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kProps,
  kSlots,
  kVersion,
  kSessions,
  kSession,
  kSessionErase,
};

struct RouteEntry {
  Route route;
  const char* method;  // of GET also HEAD
  const char* path;    // one that ends in / has a name after it
  bool open = false;   // answered without a key
};

std::span<const RouteEntry> route_table();

struct Found {
  const RouteEntry* entry = nullptr;
  std::string allowed{};  // without an entry: the methods that the path has, if there are some
};
Found find_route(std::string_view method, std::string_view path);

}  // namespace quire::serve
