# SPDX-License-Identifier: Apache-2.0
# c-ares as a static library: names are resolved without glibc's getaddrinfo, which loads the
# target machine's NSS modules and so cannot be trusted inside a static binary.
find_path(cares_INCLUDE_DIR ares.h)
find_library(cares_LIBRARY NAMES libcares.a)
if(cares_INCLUDE_DIR)
  file(STRINGS "${cares_INCLUDE_DIR}/ares_version.h" _line REGEX "#define ARES_VERSION_STR")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" cares_VERSION "${_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cares REQUIRED_VARS cares_LIBRARY cares_INCLUDE_DIR
                                  VERSION_VAR cares_VERSION)
if(cares_FOUND AND NOT TARGET cares::cares)
  add_library(cares::cares UNKNOWN IMPORTED)
  set_target_properties(cares::cares PROPERTIES
    IMPORTED_LOCATION "${cares_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${cares_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS CARES_STATICLIB)
endif()
