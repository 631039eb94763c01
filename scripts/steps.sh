#!/usr/bin/env bash
# steps.sh NAME TARGET...: makes the targets one after the other, up to the first that fails, with
# the time that each took.
set -euo pipefail

name=$1
shift
began=$SECONDS
took=()
summary() { if ((${#took[@]})); then printf '%s\n' "${took[@]}"; fi; }
for step in "$@"; do
  printf '\n=== %s: %s\n' "$name" "$step"
  from=$SECONDS
  if ! "${MAKE:-make}" --no-print-directory "$step"; then
    summary
    printf '%s: FAILED at %s after %d s; again with: make %s\n' "$name" "$step" $((SECONDS - began)) "$step"
    exit 1
  fi
  took+=("$(printf '%6d s  %s' $((SECONDS - from)) "$step")")
done
printf '\n'
summary
printf '%s: passed, %d steps in %d min %02d s\n' "$name" $# $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60))
