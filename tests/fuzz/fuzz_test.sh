#!/usr/bin/env bash
# Builds every fuzz target (src/*/*_fuzz.cpp, with clang) and runs each for the given seconds, two at once. A target src/ROOM/NAME_fuzz.cpp
# starts from the files of tests/fuzz/corpus/ROOM_NAME/, if there are any, and from what earlier runs found in build/fuzz/found/.
#
#   tests/fuzz/fuzz_test.sh SECONDS [TARGET...]
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
seconds=$1
shift

cmake --preset fuzz >/dev/null
ninja -C build/fuzz fuzz_targets >build/fuzz/build.log || { tail -n 40 build/fuzz/build.log; exit 1; }
targets=("$@")
if ((${#targets[@]} == 0)); then mapfile -t targets < <(find build/fuzz/fuzz -maxdepth 1 -name '*_fuzz' -printf '%f\n' | sort); fi
if ((${#targets[@]} == 0)); then
  echo "no fuzz target was built"
  exit 1
fi

run_target() {
  local target=$1 seconds=$2 found=build/fuzz/found/$1 corpus=tests/fuzz/corpus/${1%_fuzz} log=build/fuzz/$1.log
  mkdir -p "$found"
  local folders=("$found")
  [[ -d $corpus ]] && folders+=("$corpus")
  if "build/fuzz/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 \
    -artifact_prefix="build/fuzz/$target-" "${folders[@]}" >"$log" 2>&1; then
    echo "$target: $(grep -E '^Done [0-9]+ runs' "$log")"
  else
    echo "$target: failed; the input is in the file that the last lines name"
    tail -n 40 "$log"
    return 1
  fi
}
export -f run_target
printf '%s\n' "${targets[@]}" | xargs -P 2 -I '{}' bash -c 'run_target "$1" "$2"' _ '{}' "$seconds"
