# Writes OUTPUT: lines of code of every file src/policies/*.cc, without comments and blank lines.
# cmake -DSOURCE_DIR=... -DOUTPUT=... -P cmake/policy_lines.cmake
file(GLOB files ${SOURCE_DIR}/src/policies/*.cc)
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  # What is left of a line of code is one x; then only x are left.
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[^\n\t ]" "x" text "${text}")
  string(REGEX REPLACE "[\t ]" "" text "${text}")
  string(REGEX REPLACE "x+" "x" text "${text}")
  string(REPLACE "\n" "" text "${text}")
  string(LENGTH "${text}" lines)
  string(APPEND rows "    {\"${name}\", ${lines}},\n")
endforeach()
file(WRITE ${OUTPUT}
     "// Written by cmake/policy_lines.cmake.\n#include \"policies/lines.h\"\n\n"
     "namespace quire::policies {\n\nconst std::vector<FileLines> kFileLines = {\n${rows}};\n\n"
     "}  // namespace quire::policies\n")
