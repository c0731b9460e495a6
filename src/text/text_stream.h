/* SPDX-License-Identifier: Apache-2.0 */
/* From tokens to text that may be shown: detokenising, stop strings, and what must be held back for them.
 *
 * A stop string may begin inside one token and end inside another. Text is given out as soon as it can no longer be part
 * of a stop string; the stop string itself and everything after it is never given out. */
#ifndef MLXCEL_TEXT_TEXT_STREAM_H
#define MLXCEL_TEXT_TEXT_STREAM_H

#include "text/reply.h"
#include "text/tokenizer.h"

struct stop_string {
    const char *text; /* borrowed */
    size_t length;
};

struct text_stream {
    struct detokenizer *detokenizer;
    const struct tokenizer *tokenizer;
    const struct reply_format *format; /* its markers stay in the text, other special tokens do not */
    const struct stop_string *stops;   /* borrowed */
    size_t n_stops;
    struct buffer pending; /* detokenised, not given out yet */
    struct buffer out;     /* what the last call gave out */
    bool is_stopped;       /* a stop string was found */
    size_t stop_index;     /* which */
};

/* Special tokens are left out, but for those that the parser of `format` (may be NULL) must see. stops (and what they point
 * to) must outlive the stream. Empty stop strings are ignored. */
bool text_stream_init(struct text_stream *stream, const struct tokenizer *tokenizer, const struct reply_format *format,
                      const struct stop_string *stops, size_t n_stops, struct mx_error *err);
void text_stream_free(struct text_stream *stream);

/* Takes one token; stream->out holds the text that can be shown now (possibly none). After a stop string was found
 * nothing more comes. */
bool text_stream_push(struct text_stream *stream, uint32_t token, struct mx_error *err);
/* The end of the tokens: gives out what was held back. */
bool text_stream_finish(struct text_stream *stream, struct mx_error *err);

#endif
