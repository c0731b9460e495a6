/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/chat_turn.h"

void turn_add_call(struct chat_turn *turn, const struct json *id, const struct json *name,
                   const struct json *arguments) {
    static const struct json nothing = {.type = JSON_OBJECT};
    struct json_writer w = {.out = &turn->calls};
    if (turn->calls.length) buffer_putc(&turn->calls, ',');
    json_begin_object(&w);
    json_add_value(&w, "id", id);
    json_add_string(&w, "type", "function");
    json_write_key(&w, "function");
    json_begin_object(&w);
    json_add_value(&w, "name", name);
    json_add_value(&w, "arguments", arguments ? arguments : &nothing);
    json_end_object(&w);
    json_end_object(&w);
}

void turn_write(struct chat_turn *turn, struct json_writer *w, const char *role) {
    if (turn->text.failed || turn->reasoning.failed || turn->calls.failed) w->out->failed = true;
    json_begin_object(w);
    json_add_string(w, "role", role);
    json_add_buffer(w, "content", &turn->text);
    if (turn->reasoning.length) json_add_buffer(w, "reasoning_content", &turn->reasoning);
    if (turn->calls.length) {
        json_write_key(w, "tool_calls");
        json_begin_array(w);
        json_write_raw(w, turn->calls.data, turn->calls.length);
        json_end_array(w);
    }
    json_end_object(w);
    buffer_clear(&turn->text);
    buffer_clear(&turn->reasoning);
    buffer_clear(&turn->calls);
}

void turn_write_result(struct json_writer *w, const struct json *call_id, const struct buffer *text) {
    if (text->failed) w->out->failed = true;
    json_begin_object(w);
    json_add_string(w, "role", "tool");
    json_add_value(w, "tool_call_id", call_id);
    json_add_buffer(w, "content", text);
    json_end_object(w);
}

void turn_free(struct chat_turn *turn) {
    buffer_free(&turn->text);
    buffer_free(&turn->reasoning);
    buffer_free(&turn->calls);
}
