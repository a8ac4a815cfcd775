#!/usr/bin/env bash
# Applies the patches of this folder one by one to a copy of the tree; each must turn the test that its first line names red (README.md).
#
#   tests/mutations/mutation_test.sh [PATCH...]
set -euo pipefail
root=$(realpath -- "$(dirname -- "$0")/../..")
copy=$root/build/mutations/source
build=$copy/build/release  # laid out as the tree itself, so that ccache knows its files
patches=("$@")
if ((${#patches[@]} == 0)); then patches=("$root"/tests/mutations/*.patch); fi
[[ -e ${patches[0]} ]] || { echo "there is no patch in $root/tests/mutations"; exit 1; }

torch=$(sed -n 's/^WEFT_TORCH:PATH=//p' "$root/build/release/CMakeCache.txt" 2>/dev/null || true)
[[ -n $torch ]] || torch=$(echo "$("$root/weft" environment engine)"/lib/python3*/site-packages/torch)

# Only what differs is written, so that a second run builds little; what is gone goes.
mkdir -p -- "$copy"/{src,cmake,tests}
(cd "$copy" && find src cmake tests -type f) | while read -r path; do [[ -f $root/$path ]] || rm -- "$copy/$path"; done
(cd "$root" && git ls-files --cached --others --exclude-standard) | while read -r path; do
  if [[ -f $root/$path ]] && ! cmp --silent -- "$root/$path" "$copy/$path"; then
    mkdir -p -- "$(dirname -- "$copy/$path")"
    cp -- "$root/$path" "$copy/$path"
  fi
done

test_of() { sed -n '1s/^Test: \([a-z_]*\) \(.*\)$/\1/p' "$1"; }
filter_of() { sed -n '1s/^Test: \([a-z_]*\) \(.*\)$/\2/p' "$1"; }
run_test() { (cd "$copy" && "$(find "$build" -type f -name "$(test_of "$1")" -perm -u+x -print -quit)" \
  --gtest_filter="$(filter_of "$1")"); }
compile() { ninja -C "$build" "$@" >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log"; return 1; }; }

for patch in "${patches[@]}"; do
  [[ -n $(test_of "$patch") ]] || { echo "$patch: the first line names no test"; exit 1; }
done
cmake -G Ninja -S "$copy" -B "$build" -DWEFT_TORCH="$torch" -DWEFT_TESTS=ON >/dev/null
mapfile -t targets < <(for patch in "${patches[@]}"; do test_of "$patch"; done | sort -u)
compile "${targets[@]}"

failed=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch")
  # The program may still be that of the patch before.
  compile "$(test_of "$patch")"
  output=$(run_test "$patch" 2>&1) && grep --quiet '^\[  PASSED  \] [1-9]' <<<"$output" ||
    { echo "$name: its test does not pass, or is not there, without it"; tail -n 20 <<<"$output"; failed=1; continue; }
  patch --quiet --directory="$copy" -p1 <"$patch" || { echo "$name: does not apply"; failed=1; continue; }
  if ! compile "$(test_of "$patch")"; then
    echo "$name: does not compile"
    failed=1
  elif run_test "$patch" >"$build/test.log" 2>&1; then
    echo "$name: NOT noticed by $(test_of "$patch") $(filter_of "$patch")"
    failed=1
  else
    echo "$name: noticed"
  fi
  patch --quiet --reverse --directory="$copy" -p1 <"$patch"
done
exit "$failed"
