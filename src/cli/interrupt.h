// ctrl-C: once ends the answer, twice ends the program.
#pragma once

#include <atomic>

namespace quire::cli {

// Installs the handler.  Outside an Answering scope ctrl-C ends the program at once (130).
void catch_interrupts();

// While one lives, the first ctrl-C only raises cancel(); the next ends the program.
class Answering {
 public:
  Answering();
  ~Answering();
  const std::atomic<bool>* cancel() const;
  bool interrupted() const { return cancel()->load(); }
};

}  // namespace quire::cli
