# SPDX-License-Identifier: Apache-2.0
# The toolchain for cross-compiling to arm64: Debian's cross compiler, the libraries from
# scripts/aarch64_sysroot, and qemu for programs that the build runs.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64-sysroot)
# Debian's folder for architecture-specific headers, such as OpenSSL's.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES
    ${CMAKE_FIND_ROOT_PATH}/usr/include/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind INCLUDE LIBRARY PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
