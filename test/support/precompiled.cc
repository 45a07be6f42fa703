// Goal: the headers of test/CMakeLists.txt are compiled once for all test programs.
// Method: a library of nothing else, whose precompiled header the programs share.
