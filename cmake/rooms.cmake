# One target per room; what a room links is what it may include (tools/check_layers.py has the table).

add_library(quire_flags INTERFACE)
target_compile_options(quire_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow
                                             -Wno-missing-field-initializers)
# g++ 12 warns of overlapping copies in "text" + std::string, wrongly (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(quire_flags INTERFACE -Wno-restrict)
endif()
# a * b + c stays two roundings unless the source says fma: results must not depend on the compiler.
target_compile_options(quire_flags INTERFACE -ffp-contract=off)
if(QUIRE_SANITIZE_ADDRESS)
  target_compile_options(quire_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                               -fno-omit-frame-pointer)
  target_link_options(quire_flags INTERFACE -fsanitize=address,undefined)
endif()
if(QUIRE_SANITIZE_THREAD)
  target_compile_options(quire_flags INTERFACE -fsanitize=thread)
  target_link_options(quire_flags INTERFACE -fsanitize=thread)
endif()
if(QUIRE_FUZZ)
  # clang 14 cannot assemble coroutines with -fsanitize=function.
  target_compile_options(quire_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                               -fno-sanitize=function)
  target_link_options(quire_flags INTERFACE -fsanitize=address,undefined)
endif()
if(QUIRE_SCALAR_ONLY)
  target_compile_definitions(quire_flags INTERFACE QUIRE_SCALAR_ONLY)
endif()

# quire_room(NAME [LINKS rooms and libraries ...]): every src/NAME/*.cc.
function(quire_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  add_library(quire_${name} STATIC ${sources})
  # Rooms whose files repeat names of their own cannot be compiled as one (CMAKE_UNITY_BUILD).
  if(name MATCHES "^(kernels|linear|serve|cli)$")
    set_target_properties(quire_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_include_directories(quire_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(quire_${name} PUBLIC ${ROOM_LINKS} PRIVATE quire_flags)
endfunction()

# quire_room_test(NAME [LINKS ...]): every test/NAME/*_test.cc as one program, one ctest entry per
# TEST.  Files named *_slow_test.cc become a second program whose tests have the label "slow".
function(quire_room_test name)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  file(GLOB fast CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/${name}/*_test.cc)
  file(GLOB slow CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/${name}/*_slow_test.cc)
  if(slow)
    list(REMOVE_ITEM fast ${slow})
  endif()
  quire_test_program(quire_${name}_test ${name} fast "${fast}" "${ROOM_LINKS}")
  quire_test_program(quire_${name}_slow_test ${name} slow "${slow}" "${ROOM_LINKS}")
endfunction()

function(quire_test_program target room label sources links)
  if(NOT sources)
    return()
  endif()
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/test)
  target_link_libraries(${target} PRIVATE quire_${room} ${links} quire_test_support
                                          GTest::gtest GTest::gtest_main quire_flags)
  # Compiling the tests is most of a build from clean.  A precompiled header defeats ccache, and
  # with a warm cache is not needed.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CROSSCOMPILING)
    target_precompile_headers(${target} REUSE_FROM quire_test_precompiled)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX "${room}." DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                       PROPERTIES TIMEOUT 1200 LABELS ${label})
endfunction()
