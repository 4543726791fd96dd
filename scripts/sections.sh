# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts. Prints headings with times, and one clear line on failure.

section_start=$SECONDS
section_name=

# heading TITLE…: ends the previous section, prints its time, and starts the next one.
heading() {
  end_section
  section_name=$*
  section_start=$SECONDS
  printf '\n=== %s\n' "$section_name"
}

end_section() {
  [[ -z $section_name ]] || printf '    (%s: %d s)\n' "$section_name" $((SECONDS - section_start))
  section_name=
}

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# quietly LOG COMMAND…: writes output to LOG only; prints the end of LOG if the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    printf -- '--- %s failed; the end of %s:\n' "$1" "$log"
    tail -n 60 "$log"
    return 1
  fi
}

# Call this in the root of the tree.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # checkouts can share compiled files
  fi
}
