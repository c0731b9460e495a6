/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of head ops share: the task that one thread works on. */
#ifndef MLXCEL_BACKEND_CPU_UNIT_H
#define MLXCEL_BACKEND_CPU_UNIT_H

#include "backend/cpu/cpu.h"

struct unit {
    uint32_t span, first_row, n_rows, unit;
    struct thread_scratch *scratch;
};

/* Ops that go token by token through a state (recurrent_ops.c). */
void cpu_recurrent_unit(const struct compiled *c, const struct op *op, const struct unit *u);

#endif
