// Roles of a text: of every byte, then of every token that covers some of them.
//
// One pass, linear in the text, memory that does not depend on it, and no failure: what is not
// understood is prose.  Source: role-conditional budgets, arXiv 2607.13205; JSON's roles are its
// authors', those of the other formats are ours.
//
//   format   key                        value                   header     delimiter
//   JSON     member names, with quotes  strings and literals    -          { } [ ] : ,
//   XML      names: tags, attributes    contents, attributes    -          < </ > /> = <? ?> CDATA
//   CSV      -                          fields                  first row  separators, line ends
//   tables   -                          cells                   head row   |, the row of dashes
//
// Blanks between these are blank, inside strings, fields and contents part of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quire/types.h"

namespace quire::roles {

// Of each byte of any text: documents and tables anywhere in prose, in fenced blocks or one a line.
// A document cut off at the text's end has the roles of the same bytes of the whole document.
std::vector<Role> label_text(std::string_view text);

struct TokenRule {
  bool delimiters_first = false;  // a token with a delimiter in it is one, whatever else it covers
};

// Of each token: token i covers bytes [ends[i - 1], ends[i]), the first from 0; none: prose.
// REQUIRES: `ends` ascending (equal: an empty token), none over bytes.size().
std::vector<Role> label_tokens(std::span<const Role> bytes, std::span<const std::size_t> ends,
                               TokenRule rule = {});

const char* name_of(Role role);  // "prose", "blank", ...

}  // namespace quire::roles
