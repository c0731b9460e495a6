#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that each folder of src/ includes only folders before it in the table of docs/architecture.md (and itself), that
# intrinsics stand under src/kernels/<tier>/ alone, and that every source file has its licence line.
set -u
cd "$(dirname "$0")/.." || exit 2
order="mlxcel base format text kernels graph models backend engine serve cli bench"
status=0
rank() {
    i=0
    for o in $order; do
        [ "$o" = "$1" ] && { echo $i; return; }
        i=$((i + 1))
    done
    echo none
}
for file in $(git ls-files 'src/*.c' 'src/*.h' 'src/*.def'); do
    folder=$(echo "$file" | cut -d/ -f2)
    mine=$(rank "$folder")
    for included in $(sed -n 's/^ *# *include "\([a-z0-9]*\)\/.*/\1/p' "$file" | sort -u); do
        theirs=$(rank "$included")
        [ "$folder" = cli ] && [ "$included" = bench ] && continue
        if [ "$theirs" = none ] || [ "$theirs" -gt "$mine" ]; then
            echo "$file: $folder/ must not include $included/"
            status=1
        fi
    done
done
for file in $(git grep -lE '#include <(immintrin|x86intrin|arm_neon|emmintrin)\.h>' -- src | grep -v '^src/kernels/[a-z0-9]*/'); do
    echo "$file: intrinsics outside src/kernels/<tier>/"
    status=1
done
for file in $(git ls-files '*.c' '*.h' '*.sh' '*.cmake' 'Makefile' '*CMakeLists.txt' '*.def' '*.py' 'tests/run' '.ci/run'); do
    head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$file: no licence line"; status=1; }
done
exit $status
