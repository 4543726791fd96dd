# SPDX-License-Identifier: Apache-2.0
# libhttp_parser as a static library: Debian ships neither a CMake config nor a .pc file.
find_path(http_parser_INCLUDE_DIR http_parser.h)
find_library(http_parser_LIBRARY NAMES libhttp_parser.a)
if(http_parser_INCLUDE_DIR)
  set(http_parser_VERSION "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${http_parser_INCLUDE_DIR}/http_parser.h" _line
      REGEX "#define HTTP_PARSER_VERSION_${part} [0-9]+")
    string(REGEX MATCH "[0-9]+" _number "${_line}")
    list(APPEND http_parser_VERSION ${_number})
  endforeach()
  list(JOIN http_parser_VERSION "." http_parser_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(http_parser
  REQUIRED_VARS http_parser_LIBRARY http_parser_INCLUDE_DIR VERSION_VAR http_parser_VERSION)
if(http_parser_FOUND AND NOT TARGET http_parser::http_parser)
  add_library(http_parser::http_parser UNKNOWN IMPORTED)
  set_target_properties(http_parser::http_parser PROPERTIES
    IMPORTED_LOCATION "${http_parser_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${http_parser_INCLUDE_DIR}")
endif()
