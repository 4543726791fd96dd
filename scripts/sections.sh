# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: headings with times, one clear line on failure.

section_start=$SECONDS
section_name=

# heading TITLE…: ends the section before with its time and opens the next.
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

# quietly LOG COMMAND…: output to LOG only; shown when the command fails.
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

# In the root of the tree.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # one checkout can use what another compiled
  fi
}
