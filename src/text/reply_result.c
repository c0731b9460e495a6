/* SPDX-License-Identifier: Apache-2.0 */
/* Events put together again. */
#include "text/reply.h"

#include "base/memory.h"

#include <string.h>

static char *copy(const char *text, size_t length) {
    char *result = malloc(length + 1);
    if (!result) return NULL;
    if (length) memcpy(result, text, length);
    result[length] = '\0';
    return result;
}

static void free_call(struct reply_call_text *call) {
    free(call->name);
    free(call->id);
    free(call->arguments);
}

static bool begin_call(struct reply_result *result, const struct reply_event *event) {
    if (!array_reserve(&result->calls, &result->calls_capacity, result->n_calls + 1, sizeof *result->calls))
        return false;
    struct reply_call_text *call = &result->calls[result->n_calls++];
    *call = (struct reply_call_text){.name = copy(event->text, event->length),
                                     .name_length = event->length,
                                     .index = event->index,
                                     .id_length = event->id_length};
    if (event->id) call->id = copy(event->id, event->id_length);
    buffer_clear(&result->arguments);
    return call->name && (call->id || !event->id);
}

static bool end_call(struct reply_result *result, const struct reply_event *event) {
    struct reply_call_text *call = &result->calls[result->n_calls - 1];
    if (event->id && !call->id) {
        call->id = copy(event->id, event->id_length);
        call->id_length = event->id_length;
        if (!call->id) return false;
    }
    call->arguments_length = result->arguments.length;
    call->arguments = copy(result->arguments.data, result->arguments.length);
    return call->arguments != NULL;
}

bool reply_collect(void *context, const struct reply_event *event) {
    struct reply_result *result = context;
    switch (event->kind) {
    case REPLY_CONTENT: return buffer_append(&result->content, event->text, event->length);
    case REPLY_REASONING: return buffer_append(&result->reasoning, event->text, event->length);
    case REPLY_CALL_BEGIN: return begin_call(result, event);
    case REPLY_CALL_ARGUMENTS: return buffer_append(&result->arguments, event->text, event->length);
    case REPLY_CALL_END: return end_call(result, event);
    case REPLY_CALL_CANCEL: free_call(&result->calls[--result->n_calls]); return true;
    }
    return true;
}

void reply_result_free(struct reply_result *result) {
    for (size_t i = 0; i < result->n_calls; i++) free_call(&result->calls[i]);
    free(result->calls);
    buffer_free(&result->content);
    buffer_free(&result->reasoning);
    buffer_free(&result->arguments);
    *result = (struct reply_result){0};
}
