# SPDX-License-Identifier: Apache-2.0
# Functions that define a room (a library) and tests. Sources are listed, not globbed.

add_library(muster_settings INTERFACE)
target_compile_features(muster_settings INTERFACE cxx_std_23)
target_compile_definitions(muster_settings INTERFACE _GLIBCXX_ASSERTIONS)
target_include_directories(muster_settings INTERFACE
  ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
target_compile_options(muster_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wformat=2 -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
  # In a unity build every source file is included by another one, so this warning does not apply.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>)

# muster_add_room(NAME SOURCES … HEADERS … DEPENDS … PRIVATE_DEPENDS …)
# creates the static library muster_NAME with the alias muster::NAME.
function(muster_add_room name)
  cmake_parse_arguments(room "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(muster_${name} STATIC ${room_SOURCES})
  add_library(muster::${name} ALIAS muster_${name})
  set_target_properties(muster_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # Two include roots: "base/fd.hpp" from lib, "rendezvous/wire/limits.hpp" from the repository.
  set(root ${PROJECT_SOURCE_DIR})
  cmake_path(SET lib_dir "${PROJECT_SOURCE_DIR}/lib")
  cmake_path(IS_PREFIX lib_dir "${CMAKE_CURRENT_SOURCE_DIR}" in_lib)
  if(in_lib)
    set(root ${PROJECT_SOURCE_DIR}/lib)
  endif()
  target_sources(muster_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${root} FILES ${room_HEADERS})
  target_compile_features(muster_${name} PUBLIC cxx_std_23)
  target_link_libraries(muster_${name} PUBLIC ${room_DEPENDS}
    PRIVATE ${room_PRIVATE_DEPENDS} $<BUILD_INTERFACE:muster_settings>)
endfunction()

# For test sources only. The checks for undefined behaviour would more than double the compile time
# of tests, and are meant for production code.
set(MUSTER_TEST_OPTIONS "" CACHE STRING "compiler options for tests")

# muster_add_test(NAME SOURCES … DEPENDS … LABELS … [TIMEOUT s] [SLOW])
# creates the Catch2 program muster_test_NAME and registers it with ctest. With SLOW, its cases
# tagged [slow] become a second test, NAME_slow, which also has the label slow. The labels are the
# test's kind and the rooms that it tests (tests/README.md).
function(muster_add_test name)
  cmake_parse_arguments(test "SLOW" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 60)
  endif()
  add_executable(muster_test_${name} ${test_SOURCES})
  target_link_libraries(muster_test_${name} PRIVATE ${test_DEPENDS} muster_settings
                                                    Catch2::Catch2WithMain)
  target_include_directories(muster_test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(muster_test_${name} PRIVATE ${MUSTER_TEST_OPTIONS})
  if(test_SLOW)
    add_test(NAME ${name} COMMAND muster_test_${name} "~[slow]")
    add_test(NAME ${name}_slow COMMAND muster_test_${name} "[slow]" --warn NoTests)
    set_tests_properties(${name}_slow PROPERTIES LABELS "${test_LABELS};slow"
                                                 TIMEOUT ${test_TIMEOUT})
  else()
    add_test(NAME ${name} COMMAND muster_test_${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT})
endfunction()

# muster_add_unittest(NAME MODULE LABELS … TIMEOUT s ENVIRONMENT … [FOLDER folder])
# registers a module of Python's unittest in this folder, or in FOLDER.
function(muster_add_unittest name module)
  cmake_parse_arguments(test "" "FOLDER;TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT test_FOLDER)
    set(test_FOLDER ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  # Multi-node jobs create a token in the user's home directory, so set a separate home for tests.
  set(home XDG_CONFIG_HOME=${CMAKE_BINARY_DIR}/tests/home)
  find_package(Python3 3.9 COMPONENTS Interpreter REQUIRED)
  add_test(NAME ${name} WORKING_DIRECTORY ${test_FOLDER}
    COMMAND ${Python3_EXECUTABLE} -W error::ResourceWarning -m unittest -v ${module})
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT}
    ENVIRONMENT "${test_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1;${home}")
endfunction()
