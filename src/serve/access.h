// Who is let in: names of this machine against pages that rebind theirs, keys against strangers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"
#include "serve/http.h"

namespace quire::serve {

struct Access {
  std::vector<std::string> keys{};   // none: every route is open
  std::vector<std::string> hosts{};  // Host names besides localhost and its addresses; "*": any
  // Not only this machine can connect: a numeric address as Host passes, too, for no page can
  // rebind one.
  bool remote = false;
};

// The keys of a file: one a line; empty lines and those that begin with # do not count.
// kInvalidArgument: there is none, or one has spaces or under 8 letters (the line is named).
Result<std::vector<std::string>> parse_keys(std::string_view text);

// Whether the two are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// The key that a request brought; empty: none.
std::string_view key_of(const Head& head);

// "name:8080", "[::1]" -> the name, in small letters; empty: it is none.
std::string host_name(std::string_view host);

// Which of the keys a request that is let in came with; 0 where there are none.
std::size_t key_index(const Access& access, const Head& head);

// Why the request is not let in; `open`: the route needs no key.
std::optional<Reply> refuse_access(const Access& access, const Head& head, bool open);

}  // namespace quire::serve
