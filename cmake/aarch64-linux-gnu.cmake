# SPDX-License-Identifier: Apache-2.0
# Cross build for 64-bit Arm; its programs run under qemu-user. Libraries: Debian's arm64 packages, as
# scripts/arm64-sysroot.sh build/arm64-sysroot unpacks them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(MLXCEL_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot)
set(CMAKE_FIND_ROOT_PATH ${MLXCEL_SYSROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${MLXCEL_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${MLXCEL_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MLXCEL_SYSROOT})
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${MLXCEL_SYSROOT}/usr/lib/aarch64-linux-gnu,-rpath-link,${MLXCEL_SYSROOT}/lib/aarch64-linux-gnu -L${MLXCEL_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")
set(CMAKE_C_FLAGS_INIT "-isystem ${MLXCEL_SYSROOT}/usr/include/aarch64-linux-gnu")
