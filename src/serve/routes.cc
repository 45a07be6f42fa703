#include "serve/routes.h"

namespace quire::serve {
namespace {

constexpr RouteEntry kRoutes[] = {
    {Route::kChat, "POST", "/v1/chat/completions"},
    {Route::kCompletions, "POST", "/v1/completions"},
    {Route::kModels, "GET", "/v1/models"},
    {Route::kModel, "GET", "/v1/models/"},
    {Route::kHealth, "GET", "/health", true},
    {Route::kReady, "GET", "/ready", true},
    {Route::kMetrics, "GET", "/metrics"},
    {Route::kTokenize, "POST", "/tokenize"},
    {Route::kDetokenize, "POST", "/detokenize"},
    {Route::kApplyTemplate, "POST", "/apply-template"},
    {Route::kProps, "GET", "/props"},
    {Route::kSlots, "GET", "/slots"},
    {Route::kVersion, "GET", "/version"},
    {Route::kSessions, "GET", "/sessions"},
    {Route::kSession, "POST", "/sessions/"},
    {Route::kSessionErase, "DELETE", "/sessions/"},
};

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.back() != '/') return path == pattern;
  return path.size() > pattern.size() && path.starts_with(pattern);
}

}  // namespace

std::span<const RouteEntry> route_table() {
  return kRoutes;
}

Found find_route(std::string_view method, std::string_view path) {
  Found found;
  for (const RouteEntry& entry : kRoutes) {
    if (!matches(entry.path, path)) continue;
    const std::string_view own = entry.method;
    if (method == own || (method == "HEAD" && own == "GET")) return {.entry = &entry};
    found.allowed += (found.allowed.empty() ? "" : ", ") + std::string(own);
  }
  return found;
}

}  // namespace quire::serve
