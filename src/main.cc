// The program `quire`.

#include "cli/cli.h"

int main(int argc, char** argv) {
  return quire::cli::program(argc, argv);
}
