/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/protobuf.h"

#include <string.h>

static bool read_varint(struct protobuf *m, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool read_fixed(struct protobuf *m, size_t n, uint64_t *value) {
    if ((size_t)(m->end - m->at) < n) return false;
    *value = 0;
    for (size_t i = 0; i < n; i++) *value |= (uint64_t)m->at[i] << (8 * i);
    m->at += n;
    return true;
}

bool protobuf_next(struct protobuf *m, struct protobuf_field *field, struct mx_error *err) {
    uint64_t tag;
    if (m->at >= m->end) return false;
    *field = (struct protobuf_field){0};
    bool ok = read_varint(m, &tag) && tag >> 3 && tag >> 3 <= UINT32_MAX;
    field->number = ok ? (uint32_t)(tag >> 3) : 0;
    switch (ok ? tag & 7 : 7) {
    case 0: ok = read_varint(m, &field->value); break;
    case 1: ok = read_fixed(m, 8, &field->value); break;
    case 2:
        ok = read_varint(m, &field->value) && field->value <= (size_t)(m->end - m->at);
        if (!ok) break;
        field->bytes = m->at;
        field->length = (size_t)field->value;
        m->at += field->length;
        break;
    case 5: ok = read_fixed(m, 4, &field->value); break;
    default: ok = false;
    }
    return ok || error_set(err, ERROR_FORMAT, "%s is no protocol buffer message, or cut off", m->what);
}

float protobuf_float(const struct protobuf_field *field) {
    uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
