// What `quire --licenses` prints: LICENSE, then THIRD_PARTY_NOTICES, put in by the build.
#pragma once

namespace quire::cli {

extern const char kLicenses[];

}  // namespace quire::cli
