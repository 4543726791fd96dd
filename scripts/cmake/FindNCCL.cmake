# SPDX-License-Identifier: Apache-2.0
# The headers of NCCL and of the CUDA toolkit. The libraries are not needed here, because they are
# loaded when a worker first sums a buffer on a GPU. The same program thus runs on machines without
# them.
#   NCCL_ROOT   a folder (or environment variable) with include/nccl.h, tried first
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ENV NCCL_ROOT ENV CUDA_HOME
          PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(NCCL_CUDA_INCLUDE_DIR cuda.h
          HINTS ${NCCL_INCLUDE_DIR} ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" _parts REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _parts "${_parts}")
  string(REPLACE ";" "." NCCL_VERSION "${_parts}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR
                                  VERSION_VAR NCCL_VERSION)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::headers)
  add_library(NCCL::headers INTERFACE IMPORTED)
  set_target_properties(NCCL::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR};${NCCL_CUDA_INCLUDE_DIR}")
endif()
