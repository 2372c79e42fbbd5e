#!/bin/sh
# Fetches uPlot from npm, checks it, and replaces the files beside this one.
# The integrity is what `npm view uplot@VERSION dist.integrity` prints.
set -eu

version=1.6.32
integrity=sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && npm pack --silent "uplot@$version" >/dev/null)
got=sha512-$(openssl dgst -sha512 -binary "$work/uplot-$version.tgz" | base64 | tr -d '\n')
if [ "$got" != "$integrity" ]; then
	echo "uplot@$version: integrity is $got, want $integrity" >&2
	exit 1
fi
tar -xzf "$work/uplot-$version.tgz" -C "$work"
cp "$work/package/LICENSE" "$work/package/dist/uPlot.iife.min.js" "$work/package/dist/uPlot.min.css" "$here/"
