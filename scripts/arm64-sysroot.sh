#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches Debian's arm64 libraries that mlxcel links, for cross builds, and unpacks them into a folder; the system's own
# package lists stay as they are.   scripts/arm64-sysroot.sh OUT_DIR
set -eu
out=${1:?usage: scripts/arm64-sysroot.sh OUT_DIR}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -e "$out/complete" ] && exit 0
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT INT TERM
mkdir -p "$state/lists/partial" "$state/archives/partial"
apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists=$state/lists
    -o Dir::Cache::Archives=$state/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User="
$apt update
cd "$state/archives"
$apt download libc6 libcrypt1 libgcc-s1 libpcre2-8-0 libpcre2-dev libutf8proc2 libutf8proc-dev \
    libedit2 libedit-dev libtinfo6 libncurses-dev libncurses6 libbsd0 libbsd-dev libmd0 libmd-dev libcmocka0 \
    libcmocka-dev libevent-2.1-7 libevent-core-2.1-7 libevent-extra-2.1-7 libevent-openssl-2.1-7 \
    libevent-pthreads-2.1-7 libevent-dev libssl3 libssl-dev libsqlite3-0 libsqlite3-dev zlib1g zlib1g-dev
for package in *.deb; do dpkg-deb -x "$package" "$out"; done
# Absolute links lead back into the tree.
find "$out" -type l -lname '/*' | while read -r link; do ln -sfn "$out$(readlink "$link")" "$link"; done
touch "$out/complete"
