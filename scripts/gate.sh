#!/usr/bin/env bash
# One step of a training program on two commits, recorded and compared, in the repository of the program:
#   gate.sh BASE HEAD SCRIPT [ARGUMENTS]
# Exit code: 0 within all limits, 1 above one, 2 the head cannot be recorded, 3 not judged (nor can the base).
# CLUSTER, FAIL_ABOVE, WORLD; FOLDER: where the program starts; PREPARE: a command to run there first (data);
# OUT: where base.work.json.gz, head.work.json.gz, gate.md and gate.json go; PYTHON.
set -uo pipefail
CLUSTER=${CLUSTER:-dgx-h100} FAIL_ABOVE=${FAIL_ABOVE:-step 2%, memory 1%, exposed 5%} WORLD=${WORLD:-8}
FOLDER=${FOLDER:-.} PREPARE=${PREPARE:-} PYTHON=${PYTHON:-python}
mkdir -p "${OUT:=gate}" || exit 2
OUT=$(cd "$OUT" && pwd)
rm -f "$OUT"/{base,head}.work.json.gz "$OUT"/gate.{md,json}
trees=$(mktemp -d)
trap 'for one in base head; do git worktree remove --force "$trees/$one" 2>/dev/null; done; rm -rf "$trees"' EXIT

say() { # a sentence where people look for it
  echo "$1" >&2
  echo "$1" >"$OUT/gate.md"
}

record() { # NAME COMMIT SCRIPT [ARGUMENTS]
  local name=$1 commit=$2 script=$3
  shift 3
  git worktree add --quiet --detach "$trees/$name" "$commit" || return
  (
    cd "$trees/$name/$FOLDER" || exit
    if [ -n "$PREPARE" ]; then bash -euc "$PREPARE" >&2 || exit; fi
    "$PYTHON" -m syncwall capture "$script" --world "$WORLD" -o "$OUT/$name.work.json.gz" -- "$@"
  )
}

base=$1 head=$2
shift 2
code=0
if ! record head "$head" "$@"; then
  say "syncwall: not judged. $head cannot be recorded; the log says why."
  code=2
elif ! record base "$base" "$@"; then
  say "syncwall: not judged. $base cannot be recorded, so there is nothing to compare with; the log says why."
  code=3
else
  (
    cd "$OUT" || exit 2
    "$PYTHON" -m syncwall compare base.work.json.gz head.work.json.gz --cluster "$CLUSTER" \
      --fail-above "$FAIL_ABOVE" --markdown gate.md --json gate.json
  ) || code=$?
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$OUT/gate.md" ]; then cat "$OUT/gate.md" >>"$GITHUB_STEP_SUMMARY"; fi
exit "$code"
