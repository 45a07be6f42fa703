// What one client may take, and all of them together.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::serve {

struct Limits {
  std::uint32_t header_bytes = 16 << 10;  // request line and header fields
  std::size_t body_bytes = 8 << 20;
  std::size_t bodies_bytes = 64 << 20;  // of all bodies that are being read or answered
  std::uint32_t connections = 4096;
  // Answers that wait or run, of all connections.
  std::uint32_t answers = 544;
  // Of one request's answers: what its reader has not taken yet, after which they end.
  std::size_t pending_bytes = 64 << 10;
  int send_buffer_bytes = 0;  // the system's of a connection; 0: as the system likes

  // Seconds until a connection is closed: to the first byte of a request; from there to the end of
  // its header; from there to the end of its body; without the client's taking a byte.
  double idle_seconds = 75, header_seconds = 10, body_seconds = 60, write_seconds = 30;
  // Between two signs of life of an event stream that has nothing to say.
  double ping_seconds = 15;
};

}  // namespace quire::serve
