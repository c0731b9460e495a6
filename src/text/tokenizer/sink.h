/* SPDX-License-Identifier: Apache-2.0 */
/* Where models put the tokens they find. Ranges are kept only when offsets are wanted: bytes of the piece at first, then
 * made into origins by the pipeline. */
#ifndef MLXCEL_TEXT_SINK_H
#define MLXCEL_TEXT_SINK_H

#include "text/tokenizer/aligned.h"

#include "base/memory.h"

struct sink {
    uint32_t *ids;
    struct origin *ranges; /* count of them when is_tracked */
    size_t count, capacity, range_capacity;
    bool is_tracked;
    bool failed;
};

/* Room for `extra` more; ids is not NULL afterwards. */
static inline bool sink_reserve(struct sink *sink, size_t extra) {
    extra++;
    if (sink->count + extra <= sink->capacity && !sink->is_tracked) return true;
    if (array_reserve(&sink->ids, &sink->capacity, sink->count + extra, sizeof *sink->ids) &&
        (!sink->is_tracked ||
         array_reserve(&sink->ranges, &sink->range_capacity, sink->count + extra, sizeof *sink->ranges)))
        return true;
    sink->failed = true;
    return false;
}

static inline void sink_add(struct sink *sink, uint32_t id, size_t start, size_t end) {
    if (!sink_reserve(sink, 1)) return;
    if (sink->is_tracked) sink->ranges[sink->count] = (struct origin){(uint32_t)start, (uint32_t)end};
    sink->ids[sink->count++] = id;
}

#endif
