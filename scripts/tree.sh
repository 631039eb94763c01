#!/usr/bin/env bash
# tree.sh mark|same: notes the state of the work tree, and later fails if it has changed since.
# With CI set in the environment it must also be clean.
set -euo pipefail

note=build/tree
state() {
  git status --porcelain
  git diff HEAD | git hash-object --stdin
}
case ${1:-} in
mark)
  mkdir -p build
  state >$note
  ;;
same)
  if ! diff $note <(state); then
    echo "tree: the checks changed the files above (< before, > after): commit what they made, or stop them" >&2
    git --no-pager diff --stat
    exit 1
  fi
  if [[ -n ${CI:-} ]]; then git diff --exit-code; fi
  ;;
*)
  echo "tree: got ${1:-nothing}, want mark or same" >&2
  exit 2
  ;;
esac
