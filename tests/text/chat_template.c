/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates of a folder: where they lie, which one is chosen, what they see, how messages are fitted to them, and
 * `mlxcel apply-template`. Expected texts follow from the templates by hand and from the rules that transformers
 * documents. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct arena arena;
static char folder[200];

/* ---- folders ---- */

static void write_file(const char *name, const char *text) {
    struct mx_error err = {0};
    char *path = arena_printf(&arena, "%s/%s", folder, name), *slash = strrchr(path, '/');
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
    if (!file_write_atomic(path, text, strlen(text), &err)) tap_note("%s: %s", path, err.message);
}

static void fresh_folder(void) {
    if (folder[0]) folder_remove(folder);
    if (!folder_make_temporary(folder, sizeof folder)) tap_ok(false, "a temporary folder");
}

static const struct json *json_of(const char *text) {
    struct mx_error err = {0};
    const struct json *json = text ? json_parse(&arena, text, strlen(text), JSON_PYTHON_INTEGERS, 64, &err) : NULL;
    if (text && !json) tap_note("%s: %s", text, err.message);
    return json;
}

static const char hello[] = "[{\"role\":\"user\",\"content\":\"Hi\"}]";

/* The rendering, or "error: ..." ; borrowed from the arena. */
static const char *render(struct chat_template *t, const struct chat_request *request) {
    struct buffer out = {0};
    struct mx_error err = {0};
    bool ok = chat_template_render(t, request, NULL, &out, NULL, &err);
    const char *text =
        ok ? arena_printf(&arena, "%s", out.data ? out.data : "") : arena_printf(&arena, "error: %s", err.message);
    buffer_free(&out);
    return text;
}

static const char *render_folder(const struct chat_request *request) {
    struct mx_error err = {0};
    struct chat_template *t = chat_template_open(folder, &err);
    const char *text = t ? render(t, request) : arena_printf(&arena, "error: %s", err.message);
    chat_template_close(t);
    return text;
}

static const char *render_text(const char *template, const struct chat_request *request) {
    struct mx_error err = {0};
    struct chat_template *t = chat_template_from_text(template, strlen(template), NULL, &err);
    const char *text = t ? render(t, request) : arena_printf(&arena, "error: %s", err.message);
    chat_template_close(t);
    return text;
}

static void is_text(const char *got, const char *expected, const char *name) {
    if (!tap_ok(!strcmp(got, expected), "%s", name)) tap_note("got '%s', expected '%s'", got, expected);
}

static void is_error(const char *got, const char *part, const char *name) {
    bool ok = !strncmp(got, "error: ", 7) && strstr(got, part) && !strchr(got, '\n');
    if (!tap_ok(ok, "%s", name)) tap_note("got '%s', expected an error with '%s'", got, part);
}

/* ---- where templates lie ---- */

static void templates_are_found(void) {
    struct chat_request plain = {.messages = json_of(hello)}, with_tools = plain, named = plain;
    with_tools.tools = json_of("[{\"name\":\"f\"}]");
    named.name = "rag";
    fresh_folder();
    is_error(render_folder(&plain), "no chat template", "an_empty_folder_has_no_template");

    write_file("tokenizer_config.json", "{\"chat_template\": \"one {{ messages[0].content }}\"}");
    is_text(render_folder(&plain), "one Hi", "a_string_in_tokenizer_config");
    is_error(render_folder(&named), "'rag'", "a_string_has_no_names");

    write_file("tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, {\"name\": \"default\", "
               "\"template\": \"plain\"}, {\"name\": \"rag\", \"template\": \"rag\"}]}");
    is_text(render_folder(&plain), "plain", "of_named_templates_the_default");
    is_text(render_folder(&with_tools), "tools", "with_tools_the_one_for_tools");
    is_text(render_folder(&named), "rag", "a_name_chooses");

    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"rag\"}]}");
    is_error(render_folder(&plain), "'default'", "named_templates_without_default");

    write_file("chat_template.json", "{\"chat_template\": \"processor <image>\"}");
    write_file("tokenizer_config.json", "{}");
    is_text(render_folder(&plain), "processor <image>", "chat_template_json_of_a_processor");
    write_file("tokenizer_config.json", "{\"chat_template\": \"text only\"}");
    is_text(render_folder(&plain), "processor <image>", "the_processor_knows_images");
    write_file("tokenizer_config.json", "{\"chat_template\": \"with image\"}");
    is_text(render_folder(&plain), "with image", "the_tokenizer_knows_images_too");

    write_file("chat_template.jinja", "file\n\n");
    is_text(render_folder(&plain), "file\n", "chat_template_jinja_takes_their_place");
    write_file("additional_chat_templates/tool_use.jinja", "file for tools");
    write_file("additional_chat_templates/rag.jinja", "file for documents");
    write_file("additional_chat_templates/notes.txt", "no template");
    is_text(render_folder(&with_tools), "file for tools", "additional_templates_for_tools");
    is_text(render_folder(&named), "file for documents", "additional_templates_by_name");
    is_text(render_folder(&plain), "file\n", "beside_additional_ones_the_default");
}

static void broken_files_are_errors(void) {
    struct chat_request plain = {.messages = json_of(hello)};
    fresh_folder();
    write_file("tokenizer_config.json", "{\"chat_template\": \"x\"");
    is_error(render_folder(&plain), "tokenizer_config.json", "broken_json_names_the_file");
    write_file("tokenizer_config.json", "{\"chat_template\": 5}");
    is_error(render_folder(&plain), "expected a string", "a_number_is_no_template");
    write_file("tokenizer_config.json", "{\"chat_template\": [{\"template\": \"x\"}]}");
    is_error(render_folder(&plain), "no name", "a_list_needs_names");
    write_file("tokenizer_config.json", "{\"chat_template\": \"a\\n{% if %}\"}");
    is_error(render_folder(&plain), "line 2", "a_syntax_error_names_its_line");
    write_file("tokenizer_config.json", "{\"chat_template\": \"{{ raise_exception('no\\nsystem') }}\"}");
    is_error(render_folder(&plain), "no", "a_refusal_is_one_line");
    write_file("tokenizer_config.json", "{\"chat_template\": \"{{ 'x' * 1000 * 1000 * 1000 }}\"}");
    is_error(render_folder(&plain), "limit", "a_bound_is_an_error");
    write_file("tokenizer_config.json", "{\"chat_template\": null}");
    is_error(render_folder(&plain), "no chat template", "null_is_no_template");
}

/* ---- what a template sees ---- */

static void variables_are_passed(void) {
    struct chat_request r = {.messages = json_of(hello)};
    is_text(render_text("{{ tools is none }}{{ documents is none }}{{ tools is defined }}{{ add_generation_prompt }}"
                        "{{ enable_thinking is defined }}{{ bos_token is defined }}",
                        &r),
            "TrueTrueTrueFalseFalseFalse", "absent_tools_are_none");
    r.enables_thinking = true;
    is_text(render_text("{{ enable_thinking }}", &r), "True", "thinking_is_on_where_the_vocabulary_has_it");
    r.kwargs = json_of("{\"enable_thinking\": false, \"bos_token\": \"<b>\", \"big\": 123456789012345678901234567890}");
    is_text(render_text("{{ enable_thinking }}{{ bos_token }}{{ big + 1 }}", &r),
            "False<b>123456789012345678901234567891", "kwargs_come_before_all_others");
    r.tools = json_of("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"z\": 1, \"a\": 2.0}}]");
    r.documents = json_of("[{\"title\": \"T\"}]");
    r.add_generation_prompt = true;
    is_text(render_text("{{ tools[0]|tojson }}{{ documents[0].title }}{{ add_generation_prompt }}", &r),
            "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"z\": 1, \"a\": 2.0}}TTrue",
            "tools_and_documents_keep_their_order");
    r.kwargs = json_of("{\"tools\": null, \"messages\": []}");
    is_text(render_text("{{ tools is none }}{{ messages|length }}", &r), "True0",
            "kwargs_may_replace_tools_and_messages");
}

static void special_tokens_are_passed(void) {
    struct chat_request r = {.messages = json_of(hello)};
    struct mx_error err = {0};
    fresh_folder();
    write_file(
        "tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": \"</s>\", \"unk_token\": null, "
        "\"chat_template\": \"{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token is defined }}\"}");
    write_file("special_tokens_map.json", "{\"bos_token\": \"<other>\", \"pad_token\": \"<pad>\"}");
    is_text(render_folder(&r), "<s></s><pad>False", "special_tokens_of_config_then_map");
    struct chat_template *t = chat_template_from_text("{{ bos_token }}", 15, folder, &err);
    is_text(t ? render(t, &r) : "", "<s>", "an_own_template_has_the_folders_tokens");
    tap_ok(t && chat_template_token(t, "eos_token") && !strcmp(chat_template_token(t, "eos_token"), "</s>") &&
               !chat_template_token(t, "sep_token"),
           "tokens_are_found_by_their_variable");
    chat_template_close(t);
}

static void the_clock_can_be_set(void) {
    struct chat_request r = {.messages = json_of(hello)};
    setenv("MLXCEL_NOW", "2024-02-29 23:05:07", 1);
    is_text(render_text("{{ strftime_now('%d %b %Y %H:%M:%S %a %j') }}", &r), "29 Feb 2024 23:05:07 Thu 060",
            "mlxcel_now_is_the_clock");
    setenv("MLXCEL_NOW", "yesterday", 1);
    is_error(render_text("x", &r), "MLXCEL_NOW", "a_malformed_clock_is_an_error");
    unsetenv("MLXCEL_NOW");
    const char *year = render_text("{{ strftime_now('%Y') }}", &r);
    tap_ok(strlen(year) == 4 && year[0] == '2', "else_it_is_the_clock_on_the_wall");
}

static void fallbacks_keep_turns_apart(void) {
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":\"Hi\"},"
        "{\"role\":\"assistant\",\"content\":\"Yes?\"},{\"role\":\"user\",\"content\":\"Go\"}]";
    struct chat_request r = {.messages = json_of(messages), .add_generation_prompt = true, .adapts_messages = true};
    for (int has_chatml = 0; has_chatml < 2; has_chatml++) {
        struct mx_error err = {0};
        fresh_folder();
        struct chat_template *t = chat_template_open(folder, &err);
        bool ok = t && !chat_template_exists(t) && chat_template_set_fallback(t, has_chatml, &err) &&
                  !chat_template_exists(t);
        is_text(
            ok ? render(t, &r) : err.message,
            has_chatml
                ? "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?"
                  "<|im_end|>\n<|im_start|>user\nGo<|im_end|>\n<|im_start|>assistant\n"
                : "system: Be kind.\nuser: Hi\nassistant: Yes?\nuser: Go\nassistant:",
            has_chatml ? "chatml_where_the_vocabulary_has_it" : "plain_lines_elsewhere");
        chat_template_close(t);
    }
    struct chat_request plain = {.messages = json_of(hello)};
    struct mx_error err = {0};
    write_file("chat_template.jinja", "own");
    struct chat_template *t = chat_template_open(folder, &err);
    tap_ok(t && chat_template_set_fallback(t, true, &err) && chat_template_exists(t),
           "a_fallback_takes_no_templates_place");
    is_text(render(t, &plain), "own", "the_folders_own_template_stays");
    chat_template_close(t);
}

/* ---- continuing ---- */

#define CHATML                                                                                                         \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}{% if add_generation_prompt "    \
    "%}<assistant>{% endif %}"

static void a_final_message_is_continued(void) {
    struct chat_request r = {.continue_final_message = true};
    r.messages = json_of("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"Once upon\"}]");
    is_text(render_text(CHATML, &r), "<user>a</user>\n<assistant>Once upon", "it_ends_with_its_content");
    r.messages = json_of("[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"x\"}]");
    is_text(render_text(CHATML, &r), "<user>x</user>\n<assistant>x", "the_last_of_equal_contents_counts");
    r.messages = json_of("[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"par\"}]}]");
    is_text(render_text("{% for m in messages %}<{{ m.content[0].text }}>{% endfor %}", &r), "<par",
            "parts_can_be_continued");
    is_error(render_text("fixed", &r), "does not appear", "a_message_that_is_not_shown_cannot");
    r.add_generation_prompt = true;
    is_error(render_text(CHATML, &r), "not both", "a_generation_prompt_contradicts");
    r.add_generation_prompt = false;
    r.messages = json_of("[]");
    is_error(render_text(CHATML, &r), "no text", "there_must_be_a_message");
}

/* ---- fitting messages ---- */

static void messages_are_fitted(void) {
    struct chat_request r = {.adapts_messages = true};
    r.messages = json_of(
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]");
    is_text(render_text("{{ messages[0].content + '!' }}", &r), "a\nb!", "parts_become_text_for_templates_of_text");
    is_text(render_text("{% for p in messages[0].content %}{{ p.text }};{% endfor %}", &r), "a;b;",
            "parts_stay_for_templates_of_parts");
    r.messages = json_of(hello);
    is_text(render_text("{% for p in messages[0].content %}{{ p.text }};{% endfor %}", &r), "Hi;",
            "text_becomes_a_part");
    r.messages = json_of("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,\"tool_"
                         "calls\":[{\"type\":\"function\","
                         "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}}]}]");
    is_text(render_text("{{ messages[0].content }}{% if messages|length > 1 %}{{ messages[1].content }}|{{ "
                        "messages[1].tool_calls[0].function.arguments.x }}{% endif %}",
                        &r),
            "q|1", "arguments_become_objects_and_null_goes");
    r.messages = json_of("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
                         "{\"name\":\"f\",\"arguments\":\"[1]\"}}]}]");
    is_error(render_text(CHATML, &r), "no JSON object", "arguments_must_be_an_object");
    r.messages = json_of("[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"q\"}]");
    is_text(render_text(CHATML, &r), "<system>d</system>\n<user>q</user>\n", "developer_becomes_system");
    is_text(render_text("{# developer #}" CHATML, &r), "<developer>d</developer>\n<user>q</user>\n",
            "unless_the_template_names_it");
    r.messages = json_of("[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"q\"}]");
    is_text(render_text("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif "
                        "%}{{ m.content }}{% endfor %}",
                        &r),
            "s\nq", "a_refused_system_message_joins_the_users");
    r.adapts_messages = false;
    is_error(render_text("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif "
                         "%}{{ m.content }}{% endfor %}",
                         &r),
             "no system", "without_fitting_it_is_refused");
}

/* ---- the command ---- */

static void runs(const char *name, const char *const *argv, const char *input, int status, const char *out,
                 const char *err_part) {
    static const char *const environment[] = {"MLXCEL_NOW=2026-01-15 12:34:56", NULL};
    struct process p;
    bool ok = process_start(&p, argv, environment, input, input ? strlen(input) : 0, false);
    if (ok) process_finish(&p, 20000);
    const char *got = p.out.data ? p.out.data : "", *err = p.err.data ? p.err.data : "";
    ok = ok && p.status == status && !strcmp(got, out) && (err_part ? strstr(err, err_part) != NULL : !*err);
    if (!tap_ok(ok, "apply_template: %s", name)) tap_note("status %d, out '%s', err '%s'", p.status, got, err);
    process_free(&p);
}

#define RUN(name, input, status, out, err, ...)                                                                        \
    runs(name, (const char *const[]){mlxcel, "apply-template", __VA_ARGS__, NULL}, input, status, out, err)

static void the_command_prints_the_rendering(void) {
    const char *mlxcel = program_path("mlxcel");
    fresh_folder();
    write_file("chat_template.jinja",
               "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{{ x }}"
               "{% if tools %}{{ tools|tojson }}{% endif %}{% if add_generation_prompt %}>{% endif %}");
    write_file("tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    write_file("additional_chat_templates/rag.jinja", "rag {{ documents|length }}");
    write_file("messages.json", hello);
    write_file("tools.json", "[{\"name\": \"f\"}]");
    write_file("own.jinja", "{{ strftime_now('%Y') }}{{ messages[0].content }}\n");
    const char *messages = arena_printf(&arena, "%s/messages.json", folder),
               *tools = arena_printf(&arena, "%s/tools.json", folder);
    const char *own = arena_printf(&arena, "%s/own.jinja", folder);
    RUN("a folder without config and weights", NULL, 0, "<s>[user] Hi>", NULL, "-m", folder, "--messages", messages);
    RUN("messages from stdin", "[{\"role\":\"user\",\"content\":\"\\u00e9\\n\"}]", 0, "<s>[user] \xc3\xa9\n>", NULL,
        "-m", folder, "--messages", "-");
    RUN("tools", NULL, 0, "<s>[user] Hi[{\"name\": \"f\"}]>", NULL, "-m", folder, "--messages", messages, "--tools",
        tools);
    RUN("variables", NULL, 0, "<B>[user] Hi7>", NULL, "-m", folder, "--messages", messages, "--kwargs",
        "{\"bos_token\": \"<B>\", \"x\": 7}");
    RUN("a name", NULL, 0, "rag 2", NULL, "-m", folder, "--messages", messages, "--chat-template", "rag",
        "--chat-template-kwargs", "{\"documents\": [1, 2]}");
    RUN("a file alone", NULL, 0, "2026Hi", NULL, "--chat-template-file", own, "--messages", messages);
    RUN("a text alone", NULL, 0, "1", NULL, "--chat-template", "{{ messages|length }}", "--messages", messages);
    RUN("a text and the folder's tokens", NULL, 0, "<s>", NULL, "-m", folder, "--chat-template", "{{ bos_token }}",
        "--messages", messages);
    RUN("continuing", NULL, 0, "<s>[user] Hi", NULL, "-m", folder, "--messages", messages, "--continue-final");
    RUN("an unknown name", NULL, 2, "", "there is default, rag", "-m", folder, "--messages", messages,
        "--chat-template", "nope");
    RUN("two templates", NULL, 2, "", "one of", "--chat-template", "{{ 1 }}", "--chat-template-file", own, "--messages",
        messages);
    RUN("no messages", NULL, 2, "", "--messages", "-m", folder);
    RUN("messages that are no array", "{}", 2, "", "expected an array", "-m", folder, "--messages", "-");
    RUN("kwargs that are no object", NULL, 2, "", "--chat-template-kwargs", "-m", folder, "--messages", messages,
        "--kwargs", "[1]");
    RUN("a missing folder", NULL, 1, "", "No such file or directory", "-m", "/nonexistent", "--messages", messages);
    RUN("a refusal", NULL, 1, "", "not today", "--chat-template", "{{ raise_exception('not today') }}", "--messages",
        messages);
}

static void the_command_reads_lines(void) {
    const char *mlxcel = program_path("mlxcel");
    fresh_folder();
    write_file("tokenizer_config.json", "{\"chat_template\": \"model {{ a }}\"}");
    RUN("lines",
        "{\"template\": \"{{ a }}\\u2028{{ b|tojson }}\", \"context\": {\"a\": 1.0, \"b\": \"\\\"\\u00e9\"}}\n"
        "{\"template\": \"{{ a\", \"context\": {}}\n"
        "{\"template\": \"{{ raise_exception('no ' ~ a) }}\", \"context\": {\"a\": 5}}\n"
        "{\"template\": \"{{ 1 / a }}\", \"context\": {\"a\": 0}}\n"
        "\n"
        "nonsense\n"
        "{\"context\": {}}\n"
        "{\"template\": \"{{ strftime_now('%H:%M') }}\"}",
        0,
        "{\"text\":\"1.0\xe2\x80\xa8\\\"\\\\\\\"\xc3\xa9\\\"\"}\n"
        "{\"error\":true,\"kind\":\"syntax\",\"message\":\"unexpected end of template, expected 'end of print "
        "statement'.\"}\n"
        "{\"error\":true,\"kind\":\"raise_exception\",\"message\":\"no 5\"}\n"
        "{\"error\":true,\"kind\":\"ZeroDivisionError\",\"message\":\"division by zero\"}\n"
        "{\"error\":true,\"kind\":\"input\",\"message\":\"line 1, column 1: expected a value\"}\n"
        "{\"error\":true,\"kind\":\"input\",\"message\":\"the line has no \\\"template\\\"\"}\n"
        "{\"text\":\"12:34\"}\n",
        NULL, "--jsonl");
    RUN("lines with the model's template", "{\"context\": {\"a\": 3}}\n", 0, "{\"text\":\"model 3\"}\n", NULL, "-m",
        folder, "--jsonl");
}

int main(void) {
    templates_are_found();
    broken_files_are_errors();
    variables_are_passed();
    special_tokens_are_passed();
    the_clock_can_be_set();
    fallbacks_keep_turns_apart();
    a_final_message_is_continued();
    messages_are_fitted();
    the_command_prints_the_rendering();
    the_command_reads_lines();
    folder_remove(folder);
    arena_free(&arena);
    return tap_done();
}
