# SPDX-License-Identifier: Apache-2.0
# toml++, headers only. Debian's own CMake files describe a shared library, which static programs
# cannot use.
find_path(tomlplusplus_INCLUDE_DIR toml++/toml.h)
if(tomlplusplus_INCLUDE_DIR)
  set(tomlplusplus_VERSION "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${tomlplusplus_INCLUDE_DIR}/toml++/impl/version.h" _line
      REGEX "#define TOML_LIB_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" _number "${_line}")
    list(APPEND tomlplusplus_VERSION ${_number})
  endforeach()
  list(JOIN tomlplusplus_VERSION "." tomlplusplus_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tomlplusplus
  REQUIRED_VARS tomlplusplus_INCLUDE_DIR VERSION_VAR tomlplusplus_VERSION)
if(tomlplusplus_FOUND AND NOT TARGET tomlplusplus::headers)
  add_library(tomlplusplus::headers INTERFACE IMPORTED)
  target_include_directories(tomlplusplus::headers INTERFACE "${tomlplusplus_INCLUDE_DIR}")
  target_compile_definitions(tomlplusplus::headers INTERFACE TOML_HEADER_ONLY=1)
endif()
