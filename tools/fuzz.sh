#!/usr/bin/env bash
#
# fuzz.sh runs every fuzz target of the module for a while, one after the other.
#
#   tools/fuzz.sh [DURATION]      10s by default

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
duration=${1:-10s}

# go test lists the targets of a package, then a line with the package's name.
targets=$(go test -list '^Fuzz' ./... | awk '
	/^Fuzz/ { names[++n] = $1 }
	$1 == "ok" { for (i = 1; i <= n; i++) print names[i], $2; n = 0 }')

[[ -n $targets ]] || { echo "fuzz: no targets found" >&2; exit 1; }

while read -r name package; do
	echo "fuzz: $name in $package for $duration"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$duration" "$package"
done <<<"$targets"
