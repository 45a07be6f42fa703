#include "quire/status.h"

namespace quire {

const char* name_of(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kOutOfMemory:
      return "out of memory";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kIo:
      return "io error";
    case Code::kCancelled:
      return "cancelled";
    case Code::kNumeric:
      return "not a number";
  }
  QUIRE_CHECK(!"a Code of the enum");
}

}  // namespace quire
