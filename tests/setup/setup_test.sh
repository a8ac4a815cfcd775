#!/usr/bin/env bash
# ./weft in small invented clones, where every foreign program (dpkg-query, apt-get, sudo, python3, cmake, ninja) is a stand-in that writes
# down how it was called: what is set up when, what is said, what happens when two run at once or one is killed.
set -euo pipefail
root=$(realpath -- "$(dirname -- "$0")/../..")
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

number=0
failed=0

# A clone in a path with a space, with stand-ins first on PATH; CALLS is what they wrote.
new_clone() {
  number=$((number + 1))
  clone=$scratch/"case $number"/clone
  calls=$scratch/"case $number"/calls
  bin=$scratch/"case $number"/bin
  mkdir -p "$clone"/{src,cmake,locks} "$bin" "$scratch/case $number/home"
  cp "$root/weft" "$clone/weft"
  cp "$root"/locks/*.txt "$clone/locks/"
  touch "$clone/CMakeLists.txt" "$clone/CMakePresets.json" "$calls"
  cat >"$bin/dpkg-query" <<'END'
#!/bin/bash
for word in "$@"; do
  [[ $word == -* || " ${MISSING:-} " == *" $word "* ]] || echo "installed $word"
done
END
  cat >"$bin/apt-get" <<END
#!/bin/bash
echo "apt-get \$*" >>"$calls"
END
  cat >"$bin/sudo" <<END
#!/bin/bash
exit 1
END
  cat >"$bin/cmake" <<END
#!/bin/bash
echo "cmake \$*" >>"$calls"
mkdir -p "$clone/build/release/bin"
touch "$clone/build/release/build.ninja"
for word in "\$@"; do [[ \$word == -D* ]] && echo "\${word#-D}" >>"$clone/build/release/CMakeCache.txt"; done
exit 0
END
  cat >"$bin/ninja" <<END
#!/bin/bash
echo "ninja \$*" >>"$calls"
echo "ninja speaks"
printf '#!/bin/bash\necho "program: \$*"; exit 7\n' >"$clone/build/release/bin/weft"
chmod +x "$clone/build/release/bin/weft"
END
  cat >"$bin/python3" <<END
#!/bin/bash
if [[ \$1 == -c ]]; then echo python3.11; exit; fi
echo "python3 \${*:1:2}" >>"$calls"
folder=\${!#}
mkdir -p "\$folder/bin" "\$folder/lib/python3.11/site-packages/torch"
printf '#!/bin/bash\necho "pip \$*" >>"$calls"; sleep \${PIP_SECONDS:-0}; exit \${PIP_STATUS:-0}\n' >"\$folder/bin/python"
chmod +x "\$folder/bin/python"
END
  chmod +x "$bin"/*
}

# Runs ./weft with the stand-ins; sets status, out, err. Variables of the environment may precede.
weft() {
  local variables=()
  while [[ ${1:-} == *=* ]]; do variables+=("$1"); shift; done
  status=0
  env -u XDG_CACHE_HOME HOME="$scratch/case $number/home" WEFT_SETUP_PYTHON="$bin/python3" PATH="$bin:$PATH" "${variables[@]}" \
    "$clone/weft" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
  out=$(<"$scratch/out")
  err=$(<"$scratch/err")
}

expect() {  # WHAT CONDITION...
  if ! eval "$2"; then
    echo "FAILED: $1: not so: $2"
    echo "  status $status, calls: $(tr '\n' ';' <"$calls")"
    sed 's/^/  out: /' <<<"$out"
    sed 's/^/  err: /' <<<"$err"
    failed=1
  fi
}

called() { grep --quiet -- "$1" "$calls"; }

new_clone
weft schedule 1f1b --ranks 4
expect "a deciding command becomes the program" '[[ $out == "program: schedule 1f1b --ranks 4" && $status == 7 ]]'
expect "the set-up speaks on standard error" '[[ $err == *"ninja speaks"* ]]'
expect "a deciding command needs no environment" '! called "pip" && ! called "WEFT_TORCH" && called "ninja.* weft$"'
: >"$calls"
weft schedule
expect "a second call builds nothing" '[[ ! -s $calls && -z $err && $out == "program: schedule" ]]'
sleep 0.01
touch "$clone/src/new.cpp"
weft schedule
expect "a new source is built" 'called "ninja.* weft$" && ! called "^cmake"'

new_clone
weft train run.toml
expect "an executing command gets the engine environment" 'called "pip.*--require-hashes.*locks/engine.txt" && called "WEFT_TORCH:PATH=.*/engine-"'
expect "and both programs" 'called "ninja.* weft weft-engine$"'
expect "announced with its size" '[[ $err == *"installing the engine environment"*"GB on disk"* ]]'
expect "and becomes the program" '[[ $out == "program: train run.toml" && $status == 7 ]]'
: >"$calls"
weft train run.toml
expect "a second call does nothing" '[[ ! -s $calls && -z $err ]]'
weft train --help
expect "help needs no engine" '! called "pip"'
echo "# changed" >>"$clone/locks/engine.txt"
weft train run.toml
expect "a changed lock makes another environment" 'called "pip.*engine.txt" && called "WEFT_TORCH"'
expect "beside the first" '[[ $(ls -d "$scratch/case $number/home/.cache/weft"/engine-* | wc -l) == 2 ]]'

new_clone
weft PIP_STATUS=1 train run.toml
expect "a failed installation says so" '[[ $status == 1 && $err == *"could not be installed"* ]]'
expect "and leaves nothing that looks whole" '! compgen -G "$scratch/case $number/home/.cache/weft/engine-*" >/dev/null'
weft train run.toml
expect "so that the next call installs again" '[[ $status == 7 && $(grep -c pip "$calls") == 2 ]]'
expect "and clears the rest away" '! compgen -G "$scratch/case $number/home/.cache/weft/engine.partial*" >/dev/null'

new_clone
env -u XDG_CACHE_HOME HOME="$scratch/case $number/home" WEFT_SETUP_PYTHON="$bin/python3" PATH="$bin:$PATH" PIP_SECONDS=30 \
  setsid "$clone/weft" train run.toml >/dev/null 2>&1 </dev/null &
killed=$!
until called pip; do sleep 0.05; done
kill -9 -- "-$killed"
wait "$killed" 2>/dev/null || true
: >"$calls"
weft train run.toml
expect "after a kill in the middle the environment is installed anew" '[[ $status == 7 ]] && called "pip.*engine.txt"'

new_clone
for runner in 1 2; do
  env -u XDG_CACHE_HOME HOME="$scratch/case $number/home" WEFT_SETUP_PYTHON="$bin/python3" PATH="$bin:$PATH" PIP_SECONDS=0.3 \
    "$clone/weft" train run.toml >"$scratch/out$runner" 2>"$scratch/err$runner" </dev/null &
done
wait || true
status=0 out=$(cat "$scratch"/out[12]) err=$(cat "$scratch"/err[12])
expect "two at once install once" '[[ $(grep -c pip "$calls") == 1 && $err == *"waiting for another weft that installs"* ]]'
expect "and both become the program" '[[ $(grep -c "program: train run.toml" <<<"$out") == 2 ]]'

new_clone
weft HOME= train run.toml
expect "works without HOME" '[[ $status == 7 && -d $clone/build/cache ]]'
new_clone
weft XDG_CACHE_HOME="$scratch/case $number/elsewhere" train run.toml
expect "XDG_CACHE_HOME is kept to" '[[ $status == 7 && -d "$scratch/case $number/elsewhere/weft" ]]'

new_clone
if ((EUID == 0)); then
  weft MISSING="ninja-build mold" schedule
  expect "root installs what is missing, after an update" '[[ $(head -n 1 "$calls") == "apt-get update"* ]] &&
    called "apt-get .*Lock::Timeout.* install .*ninja-build mold$"'
  expect "and says so" '[[ $err == *"installing system packages"*"ninja-build mold"* && $status == 7 ]]'
  # What anyone else sees: setpriv gives up root's rights.
  chmod -R a+rwX "$scratch"
  command -v setpriv >/dev/null && {
    status=0
    : >"$calls"
    env HOME="$scratch/case $number/home" PATH="$bin:$PATH" MISSING="mold" WEFT_SETUP_PYTHON="$bin/python3" setpriv --reuid=65534 --clear-groups \
      bash -c 'touch "$1/src/newer.cpp"; exec "$1/weft" schedule' _ "$clone" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    out=$(<"$scratch/out") err=$(<"$scratch/err")
    expect "without root and sudo the one command is printed" '[[ $status == 2 && $err == *"sudo apt-get update && sudo apt-get install"*" mold" ]]'
    expect "and nothing is done" '[[ ! -s $calls ]]'
  }
fi

new_clone
weft environment other
expect "an unknown environment is the user'\''s mistake" '[[ $status == 2 && $err == *"engine, test"* ]]'

((failed == 0)) && echo "the set-up behaves"
exit "$failed"
