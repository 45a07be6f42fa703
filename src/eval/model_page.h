// Pages that have a section for each model.
#pragma once

#include <string>

#include "eval/policies_report.h"

namespace quire::eval {

// "smollm2-135m-instruct-q4-1": a model's file, in the names of other files.
std::string model_slug(const std::string& model_file);
// Every heading one level deeper.
std::string deeper(const std::string& markdown);

// How a section begins: "## FILE", and NAME (QUANTIZATION, fingerprint HASH).
std::string model_heading(const PoliciesReport& report);

// Writes `head` and the sections that the page at `path` has.  `section` begins with "## MODEL": it
// takes the place of an earlier one of that heading, or stands behind the others.  kIo.
Status write_section(const std::string& path, const std::string& head, const std::string& section);

}  // namespace quire::eval
