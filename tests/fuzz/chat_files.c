/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the files that a folder's chat templates and special tokens come from. The first byte chooses the file, the
 * rest is its content. The templates found are rendered with messages that have to be adapted to them. */
#include "tests/fuzz/files.h"

#include "base/json.h"
#include "text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"S\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":[1,null]}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},{\"role\":\"assistant\",\"content\":\"so\"}]";

static void render(const struct chat_template *t, const struct json *messages, const char *name, bool continues) {
    static const struct tm now = {.tm_year = 126, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};
    struct jinja_limits limits = {
        .max_steps = 100000, .max_output_bytes = 1 << 20, .max_memory_bytes = 16 << 20, .now = &now};
    struct chat_request request = {.messages = messages,
                                   .name = name,
                                   .add_generation_prompt = !continues,
                                   .continue_final_message = continues,
                                   .adapts_messages = true};
    struct buffer out = {0};
    struct mx_error err = {0};
    if (!chat_template_render(t, &request, &limits, &out, NULL, &err)) {
        expect_message(&err);
        expect(!out.length);
    }
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"tokenizer_config.json", "chat_template.json", "chat_template.jinja",
                                        "special_tokens_map.json"};
    if (!size) return 0;
    struct arena arena = {0};
    struct mx_error err = {0};
    fuzz_write_alone(names[data[0] % (sizeof names / sizeof *names)], data + 1, size - 1);
    struct chat_template *t = chat_template_open(fuzz_folder(), &err);
    if (!t) {
        expect_message(&err);
        return 0;
    }
    const struct json *messages = json_parse(&arena, conversation, sizeof conversation - 1, JSON_STRICT, 20, NULL);
    expect(messages != NULL);
    if (!chat_template_exists(t)) expect(chat_template_set_fallback(t, data[0] & 128, &err));
    for (size_t i = 0; i < chat_template_count(t); i++) {
        render(t, messages, chat_template_name(t, i), false);
        render(t, messages, chat_template_name(t, i), true);
    }
    chat_template_close(t);
    arena_free(&arena);
    return 0;
}
