// Expected refusals are values.  No exception crosses include/quire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "quire/check.h"

namespace quire {

// Closed: each code has one meaning and one thing a caller can do about it.
enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,  // the call is wrong; the message names the field
  kNotFound,         // no such sequence, file, name
  kOutOfMemory,      // the byte budget has no room now; shrink or drop something and try again
  kUnsupported,      // understood, and not something this build or model can do
  kCorrupt,          // a file says something impossible; the message names offset, tensor or key
  kIo,               // the operating system refused
  kCancelled,        // the caller asked to stop
  kNumeric,          // NaN or infinity where a number was needed
};

const char* name_of(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // kOk
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: converts
  Result(Status status) : status_(std::move(status)) { QUIRE_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() & {
    QUIRE_CHECK(ok());
    return *value_;
  }
  const T& operator*() const& {
    QUIRE_CHECK(ok());
    return *value_;
  }
  T&& operator*() && {
    QUIRE_CHECK(ok());
    return std::move(*value_);
  }
  T* operator->() {
    QUIRE_CHECK(ok());
    return &*value_;
  }
  const T* operator->() const {
    QUIRE_CHECK(ok());
    return &*value_;
  }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace quire
