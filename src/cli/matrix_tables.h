// What works together, as tables.  Each cell is the answer of the very function that accepts or
// refuses the combination when a user asks for it, so no page can promise what it does not keep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "quire/status.h"

namespace quire::cli {

struct MatrixCell {
  enum class State : std::uint8_t { kYes, kNo, kLess, kNone, kText };
  State state = State::kNone;
  std::string text{};  // why not, or what is less; or the text
};
MatrixCell cell_of(const Status& status);  // yes, or no and its message
MatrixCell text_cell(std::string text);

struct MatrixRow {
  std::string name;
  std::vector<MatrixCell> cells;
};

struct MatrixTable {
  std::string name, about;           // about: a sentence or two
  std::vector<std::string> columns;  // the first is the rows' names
  std::vector<MatrixRow> rows;
};

// The paths of the server.
MatrixTable path_matrix();
// Every field of a request, with a value that asks something of it, by endpoint.
MatrixTable field_matrix();
// Those fields of a chat that could exclude each other, two by two.
MatrixTable pair_matrix();
// Every policy, by what is asked of it; on the layers of a model as well, where there is one.
MatrixTable policy_matrix(const model::Model* model = nullptr);
// What the chat template of a model takes.
MatrixTable template_matrix(const model::Model& model);

// All of them; the last one only with a model.
std::vector<MatrixTable> support_matrix(const model::Model* model = nullptr);

}  // namespace quire::cli
