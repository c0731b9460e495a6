#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that building and testing need, where some are missing. As root or through sudo;
# otherwise it prints the one line to run and stops.
set -eu
packages="gcc make cmake ninja-build pkg-config libpcre2-dev libutf8proc-dev libedit-dev libevent-dev libssl-dev libsqlite3-dev libcmocka-dev xz-utils"
missing=
for p in $packages $*; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then run=
elif command -v sudo >/dev/null 2>&1; then run=sudo
else
    echo "mlxcel: packages are missing; as root, run:  apt-get install -y$missing" >&2
    exit 1
fi
echo "mlxcel: installing$missing" >&2
$run apt-get update -qq
$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
