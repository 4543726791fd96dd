# SPDX-License-Identifier: Apache-2.0
# Rules for "cmake --install", except for the programs and the collective library, which have their
# own: the CMake package, pkg-config's file, manual pages, completions. Included by the top-level
# CMakeLists.txt after all targets exist. Packages are made from components: programs (with pages
# and completions), library, python; files for building against muster are "development".
include(CMakePackageConfigHelpers)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/musterConfig.cmake.in
  ${PROJECT_BINARY_DIR}/musterConfig.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/musterConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/musterConfig.cmake
  ${PROJECT_BINARY_DIR}/musterConfigVersion.cmake
  DESTINATION ${cmake_dir} COMPONENT development)
file(RELATIVE_PATH up_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(${CMAKE_CURRENT_LIST_DIR}/muster.pc.in ${PROJECT_BINARY_DIR}/muster.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/muster.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(EXPORT musterTargets NAMESPACE muster:: DESTINATION ${cmake_dir} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)

# muster prints its own page and completions from the option table. When cross-compiling, CMake's
# emulator runs the programs.
set(made ${PROJECT_BINARY_DIR}/share)
file(MAKE_DIRECTORY ${made})
foreach(row "--print-man:muster.1" "--print-completion=bash:muster.bash"
        "--print-completion=zsh:_muster")
  string(REPLACE ":" ";" row "${row}")
  list(GET row 0 option)
  list(GET row 1 file)
  add_custom_command(OUTPUT ${made}/${file} DEPENDS muster VERBATIM
    COMMAND sh -c "to=$1; shift; \"$@\" > \"$to.new\" && mv \"$to.new\" \"$to\"" sh
            ${made}/${file} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:muster> ${option})
  list(APPEND made_files ${made}/${file})
endforeach()
foreach(program muster-store musterctl)
  set(start ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>)
  add_custom_command(OUTPUT ${made}/${program}.1 VERBATIM
    DEPENDS ${program} ${CMAKE_CURRENT_LIST_DIR}/man_from_help.cmake
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${start}" -DNAME=${program}
            -DOUTPUT=${made}/${program}.1 -P ${CMAKE_CURRENT_LIST_DIR}/man_from_help.cmake)
  set(completions ${made}/${program}.bash ${made}/_${program})
  add_custom_command(OUTPUT ${completions} VERBATIM
    DEPENDS ${program} ${CMAKE_CURRENT_LIST_DIR}/completion_from_help.cmake
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${start}" -DNAME=${program}
            -DBASH=${made}/${program}.bash -DZSH=${made}/_${program}
            -P ${CMAKE_CURRENT_LIST_DIR}/completion_from_help.cmake)
  list(APPEND made_files ${made}/${program}.1 ${completions})
endforeach()
add_custom_target(muster_share ALL DEPENDS ${made_files})
install(FILES ${made}/muster.1 ${made}/muster-store.1 ${made}/musterctl.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
foreach(program muster muster-store musterctl)
  install(FILES ${made}/${program}.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
endforeach()
install(FILES ${made}/_muster ${made}/_muster-store ${made}/_musterctl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT programs)
