# cover.awk: a profile of go test -coverprofile as a table, a line a package, and the files of which
# less than half is covered. Blocks that several test binaries saw count once.
BEGIN { min = 20 }
/^mode:/ { next }
{
  n = $(NF - 1)
  size[$1] = n
  if ($NF > 0) hit[$1] = 1
}
END {
  for (k in size) {
    file = k; sub(/:.*/, "", file); sub(/^shellgame\//, "", file)
    pkg = file; if (!sub(/\/[^\/]*$/, "", pkg)) pkg = "."
    all[pkg] += size[k]; total += size[k]; of[file] += size[k]
    if (k in hit) { seen[pkg] += size[k]; got += size[k]; in_[file] += size[k] }
  }
  for (p in all) printf "%6.1f %%  %6d of %6d  %s\n", 100 * seen[p] / all[p], seen[p], all[p], p | "sort -k6"
  close("sort -k6")
  printf "%6.1f %%  %6d of %6d  all\n\nfiles of which less than half is covered:\n", 100 * got / total, got, total
  for (f in of) if (of[f] >= min && in_[f] < of[f] / 2) printf "%6.1f %%  %6d of %6d  %s\n", 100 * in_[f] / of[f], in_[f], of[f], f | "sort -n"
}
