#!/usr/bin/env bash
#
# generate.sh writes what follows from the types of the API, the RBAC markers and the
# chart:
#
#   api/v1alpha1/zz_generated.deepcopy.go, config/crd, config/rbac  by controller-gen
#   charts/taper/files/{crd,role}.yaml                             copies for the chart
#   config/install.yaml, config/release.yaml                       by helm, from the chart
#   docs/operator-api.md                                           by crd-ref-docs
#
# With --check it writes nothing and fails, with the difference, where a file is not
# what it would write. helm is taken from PATH, or from the variable HELM.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm=${HELM:-helm}

# tool runs one of the tools that tools/go.mod pins.
tool() { go tool -modfile=tools/go.mod "$@"; }

# plain takes out of rendered templates what only means something to helm.
plain() {
	sed -e '/^# Source: /d' \
		-e '/^ *helm.sh\/chart: /d' \
		-e '/^ *app.kubernetes.io\/managed-by: Helm$/d' \
		-e '/^  annotations:$/{N;/helm.sh\/hook/d}' \
		-e '/^ *helm.sh\/hook/d'
}

render() {
	"$helm" template taper "$chart" --namespace taper-system "$@" | plain
}

# generate writes all files below the folder $1.
generate() {
	local out=$1 chart=$1/charts/taper
	mkdir -p "$out"/api/v1alpha1 "$out"/config "$out"/docs "$out"/charts
	if [[ $out != . ]]; then
		cp -r charts/taper "$out"/charts/
	fi
	tool controller-gen \
		object crd:allowDangerousTypes=false paths=./api/... \
		output:object:dir="$out"/api/v1alpha1 output:crd:dir="$out"/config/crd
	tool controller-gen \
		rbac:roleName=taper-operator paths=./internal/operator \
		output:rbac:dir="$out"/config/rbac
	cp "$out"/config/crd/taper.dev_balancepolicies.yaml "$chart"/files/crd.yaml
	cp "$out"/config/rbac/role.yaml "$chart"/files/role.yaml

	{
		echo "# Generated from charts/taper by config/generate.sh. DO NOT EDIT."
		cat config/namespace.yaml
		render --no-hooks
	} >"$out"/config/install.yaml
	{
		echo "# Generated from charts/taper by config/generate.sh. DO NOT EDIT."
		render --show-only templates/release.yaml \
			--set rbac.create=false,serviceAccount.create=false,serviceAccount.name=taper-operator
	} >"$out"/config/release.yaml

	tool crd-ref-docs --log-level ERROR --source-path api --config config/crd-ref-docs.yaml \
		--renderer markdown --templates-dir config/crd-ref-docs --output-path "$out"/docs/reference.tmp
	cat --squeeze-blank "$out"/docs/reference.tmp >"$out"/docs/operator-api.md
	rm "$out"/docs/reference.tmp
}

# check compares the tree with what generate would write.
check() {
	local file same=0
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	generate "$scratch"
	while read -r file; do
		diff -u "$file" "$scratch/$file" || same=1
	done < <(cd "$scratch" && find . -type f | sort)
	if [[ $same != 0 ]]; then
		echo "generated files are not up to date: run config/generate.sh" >&2
		return 1
	fi
}

if ! command -v "$helm" >/dev/null; then
	echo "$helm is not in PATH; install helm 4, or name it in HELM" >&2
	exit 1
fi
case ${1-} in
'') generate . ;;
--check) check ;;
*)
	echo "usage: config/generate.sh [--check]" >&2
	exit 2
	;;
esac
