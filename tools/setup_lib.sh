# Sourced by tools/setup: messages, the lock, disk space, packages, quiet commands with progress.

note() { printf '[setup %4ds] %s\n' "$SECONDS" "$*" >&2; }

fail_step() {
  note "failed: $*"
  note "Run the same command again when that is put right: finished steps are kept."
  exit 1
}

trap 'note "interrupted; run the same command again, it goes on from here"; exit 130' INT TERM

# One setup at a time in one clone; a second one waits for the first and then finds all done.
lock_clone() {
  mkdir -p .deps .models
  exec 9>.deps/lock
  flock -n 9 && return
  note "another setup is at work in this clone; waiting for it"
  flock 9
}

# need_space DIRECTORY MIB
need_space() {
  local free
  mkdir -p "$1"
  free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  ((free >= $2)) || fail_step "the disk of $(realpath "$1") has $free MiB free and $2 MiB are needed"
}

install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif command -v sudo >/dev/null && [[ -t 0 && -t 2 ]]; then
      sudo true || fail_step "sudo"
      as_root=(sudo)
    else
      note "these system packages are missing, and installing them needs root:"
      echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
      note "Run that as root, then the same command again."
      exit 1
    fi
  fi
  local log=.deps/packages.log failed=""
  : >"$log"
  watch "$log" '^(Get:[0-9]+|Unpacking|Setting up) [^(]*' 9>&- &
  local watcher=$!
  apt_install "$@" || failed=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [[ -z $failed ]] && return
  tail -n 12 "$log" >&2
  fail_step "apt-get (all of its output: $log).  Is this machine online, its package source right?"
}

# Package lists that are there usually do; fresh ones are fetched only when they do not.
apt_install() {
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y
    -o DPkg::Lock::Timeout=300)
  if apt-cache show "$@" >/dev/null 2>&1 &&
    "${apt[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
    return
  fi
  "${apt[@]}" update >>"$log" 2>&1 </dev/null &&
    "${apt[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 </dev/null
}

# quietly LOG COMMAND...: its output is shown only when it fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null && return
  tail -n 25 "$log" >&2
  need_space .deps 50
  fail_step "$* (all of its output: $log)"
}

# watch LOG PATTERN: every 15 seconds the last thing in LOG that matches, until the caller's end.
watch() {
  while sleep 15 && kill -0 $$ 2>/dev/null; do
    note "  $(grep -aoE "$2" "$1" | tail -n 1)"
  done
}

# with_progress LOG COMMAND...: likewise, with a line about ninja's progress now and then.
with_progress() {
  local log=$1 code=0
  shift
  : >"$log"
  watch "$log" '^\[[0-9]+/[0-9]+\]' 9>&- &
  local watcher=$!
  "$@" >"$log" 2>&1 </dev/null || code=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  ((code == 0)) && return
  { grep -aE -A12 '^FAILED|error:' "$log" || tail -n 5 "$log"; } | head -n 40 >&2
  need_space .deps 50
  fail_step "$* (all of its output: $log)"
}

# environment FOLDER REQUIREMENTS MIB: a Python environment with exactly what a file pins.
environment() {
  local folder=$1 wanted=$2 stamp
  stamp=$({ cat "$wanted"; python3 --version; } | sha256sum | cut -d' ' -f1)
  [[ $(cat "$folder/stamp" 2>/dev/null) == "$stamp" ]] && return
  note "installing $(grep -m1 -oE '^[a-z][^ ]+' "$wanted") into $folder"
  need_space .deps "$3"
  # An environment cannot be moved: its stamp, written last, says that it is complete.
  rm -rf "$folder"
  quietly "$folder.log" python3 -m venv "$folder"
  quietly "$folder.log" "$folder/bin/python" -m pip install --disable-pip-version-check \
    --no-input --only-binary :all: --require-hashes -r "$wanted"
  echo "$stamp" >"$folder/stamp"
}
