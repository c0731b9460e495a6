/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats: what model families write. Facts are from the families' chat templates. */
#include "text/reply_format.h"

/* ---- thoughts ---- */

static const struct reply_thought think = {"<think>", "</think>", false};
static const struct reply_thought thought = {"<thought>", "</thought>", false};
static const struct reply_thought seed_think = {"<seed:think>", "</seed:think>", false};
static const struct reply_thought longcat_think = {"<longcat_think>", "</longcat_think>", false};
static const struct reply_thought minimax_think = {"<mm:think>", "</mm:think>", false};
static const struct reply_thought hunyuan_think = {"<think:opensource>", "</think:opensource>", false};
static const struct reply_thought kimi_think = {"◁think▷", "◁/think▷", false};
static const struct reply_thought granite_think = {"Here is my thought process:", "Here is my response:", false};
static const struct reply_thought apriel_think = {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", false};
static const struct reply_thought mistral_think = {"[THINK]", "[/THINK]", true};
static const struct reply_thought cohere_think = {"<|START_THINKING|>", "<|END_THINKING|>", true};
static const struct reply_thought gemma_think = {"<|channel>thought", "<channel|>", true};
static const struct reply_thought apertus_think = {"<|inner_prefix|>", "<|inner_suffix|>", true};
static const struct reply_thought solar_think = {"<|think|>", "<|end|>", true};
static const struct reply_thought inkling_think = {"<|content_thinking|>", "<|end_message|>", true};
static const struct reply_thought kimi3_think = {"<|open|>think<|sep|>", "<|close|>think<|sep|>", true};
static const struct reply_thought minicpm_think = {"<|thought_start|>", "<|thought_end|>", true};

/* ---- calls with the name outside of the arguments ---- */

static const struct reply_call function_json = {
    .open = "<function=", .head_end = ">", .close = "</function>", .flags = CALL_JSON};
static const struct reply_call function_tags = {.open = "<function=",
                                                .head_end = ">",
                                                .close = "</function>",
                                                .param_open = "<parameter=",
                                                .key_end = ">",
                                                .param_close = "</parameter>",
                                                .flags = CALL_JSON | CALL_LOSES_BREAKS};
static const struct reply_call glm_tags = {.open = "",
                                           .close = "</tool_call>",
                                           .param_open = "<arg_key>",
                                           .key_end = "</arg_key>",
                                           .value_open = "<arg_value>",
                                           .param_close = "</arg_value>"};
static const struct reply_call longcat_tags = {.open = "",
                                               .close = "</longcat_tool_call>",
                                               .param_open = "<longcat_arg_key>",
                                               .key_end = "</longcat_arg_key>",
                                               .value_open = "<longcat_arg_value>",
                                               .param_close = "</longcat_arg_value>"};
static const struct reply_call hunyuan_tags = {.open = "<tool_call:opensource>",
                                               .head_end = "<tool_sep:opensource>",
                                               .close = "</tool_call:opensource>",
                                               .param_open = "<arg_key:opensource>",
                                               .key_end = "</arg_key:opensource>",
                                               .value_open = "<arg_value:opensource>",
                                               .param_close = "</arg_value:opensource>"};
/* <invoke name="N"><parameter name="K">V</parameter></invoke> with something in front of the tags' names. */
#define INVOKE(prefix, ...)                                                                                            \
    {                                                                                                                  \
        .open = "<" prefix "invoke", .head_end = ">", .close = "</" prefix "invoke>", .name_attribute = "name",        \
        .param_open = "<" prefix "parameter", .key_end = ">", .param_close = "</" prefix "parameter>",                 \
        .key_attribute = "name", __VA_ARGS__                                                                           \
    }
static const struct reply_call minimax_invoke = INVOKE("", .flags = CALL_LOSES_BREAKS);
static const struct reply_call deepseek_invoke = INVOKE("｜DSML｜", .type_attribute = "string");
static const struct reply_call step_invoke = INVOKE("steptml:", .flags = 0);
static const struct reply_call atem_invoke = INVOKE("atem:", .flags = 0);
#define MINIMAX3 "]<]minimax[>["
static const struct reply_call minimax3_invoke = {.open = MINIMAX3 "<invoke",
                                                  .head_end = ">",
                                                  .close = MINIMAX3 "</invoke>",
                                                  .name_attribute = "name",
                                                  .param_open = MINIMAX3 "<parameter",
                                                  .key_end = ">",
                                                  .param_close = MINIMAX3 "</parameter>",
                                                  .key_attribute = "name",
                                                  .flags = CALL_LOSES_BREAKS};
static const struct reply_call minicpm_function = {.open = "<function",
                                                   .head_end = ">",
                                                   .close = "</function>",
                                                   .name_attribute = "name",
                                                   .param_open = "<param",
                                                   .key_end = ">",
                                                   .param_close = "</param>",
                                                   .key_attribute = "name",
                                                   .flags = CALL_LOSES_BREAKS | CALL_CDATA | CALL_JSON};
static const struct reply_call kimi3_call = {.open = "<|open|>call",
                                             .head_end = "<|sep|>",
                                             .close = "<|close|>call<|sep|>",
                                             .name_attribute = "tool",
                                             .param_open = "<|open|>argument",
                                             .key_end = "<|sep|>",
                                             .param_close = "<|close|>argument<|sep|>",
                                             .key_attribute = "key",
                                             .type_attribute = "type"};
static const struct reply_call mistral_call = {
    .open = "", .head_end = "[ARGS]", .id_from = "[CALL_ID]", .flags = CALL_JSON | CALL_BRACE};
static const struct reply_call deepseek_call = {.open = "<｜tool▁call▁begin｜>",
                                                .head_end = "<｜tool▁sep｜>",
                                                .close = "<｜tool▁call▁end｜>",
                                                .second_head = "function",
                                                .flags = CALL_JSON};
static const struct reply_call kimi_call = {.open = "<|tool_call_begin|>",
                                            .head_end = "<|tool_call_argument_begin|>",
                                            .close = "<|tool_call_end|>",
                                            .flags = CALL_JSON | CALL_HEAD_IS_ID};
static const struct reply_call functionary_call = {
    .open = ">>>", .head_end = "\n", .flags = CALL_JSON | CALL_ALL_IS_TEXT};
static const struct reply_call solar_call = {.open = "<|tool_call:begin|>",
                                             .head_end = "<|tool_call:args|>",
                                             .close = "<|tool_call:end|>",
                                             .name_from = "<|tool_call:name|>",
                                             .flags = CALL_JSON | CALL_ID_FIRST};
static const struct reply_call mcp_call = {.open = "<server_name>",
                                           .head_end = "<arguments>",
                                           .close = "</arguments>",
                                           .name_from = "<tool_name>",
                                           .name_to = "</tool_name>",
                                           .flags = CALL_JSON};
static const struct reply_call action_input = {.open = "", .head_end = "Action Input:", .flags = CALL_JSON};
static const struct reply_call gemma_call = {.open = "call:", .quote = "<|\"|>", .flags = 0};
static const struct reply_call function_gemma_call = {.open = "call:", .quote = "<escape>", .flags = 0};
static const struct reply_call inkling_call = {
    .open = "", .head_end = "<|content_invoke_tool_json|>", .flags = CALL_HEAD_ONLY};
static const struct reply_call message_call = {.open = "", .close = "<|call|>", .flags = CALL_JSON};

/* ---- blocks ---- */

#define TEXT_JSON (BLOCK_JSON | BLOCK_TEXT)

static const struct reply_block hermes_block = {
    "<tool_call>", "</tool_call>", TEXT_JSON, {&function_tags, &glm_tags}, {0}};
static const struct reply_block glm_block = {"<tool_call>", "</tool_call>", TEXT_JSON, {&glm_tags}, {0}};
static const struct reply_block coder_block = {
    "<tool_call>", "</tool_call>", TEXT_JSON | BLOCK_CALLS_START, {&function_tags}, {0}};
static const struct reply_block seed_block = {
    "<seed:tool_call>", "</seed:tool_call>", BLOCK_TEXT | BLOCK_CALLS_START, {&function_tags}, {0}};
static const struct reply_block longcat_block = {
    "<longcat_tool_call>", "</longcat_tool_call>", TEXT_JSON, {&longcat_tags}, {0}};
static const struct reply_block hunyuan3_block = {
    "<tool_calls:opensource>", "</tool_calls:opensource>", BLOCK_TEXT | BLOCK_CALLS_START, {&hunyuan_tags}, {0}};
static const struct reply_block tool_calls_block = {"<tool_calls>", "</tool_calls>", TEXT_JSON, {0}, {0}};
static const struct reply_block nemotron_block = {"<TOOLCALL>", "</TOOLCALL>", TEXT_JSON, {0}, {0}};
static const struct reply_block minimax_block = {
    "<minimax:tool_call>", "</minimax:tool_call>", BLOCK_TEXT, {&minimax_invoke}, {0}};
static const struct reply_block minimax3_block = {
    MINIMAX3 "<tool_call>", MINIMAX3 "</tool_call>", BLOCK_CALLS_START, {&minimax3_invoke}, {0}};
static const struct reply_block dsml_block = {
    "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", BLOCK_TEXT | BLOCK_CALLS_START, {&deepseek_invoke}, {0}};
static const struct reply_block dsml4_block = {
    "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", BLOCK_TEXT, {&deepseek_invoke}, {0}};
static const struct reply_block step_block = {
    "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
    BLOCK_CALLS_START,
    {&step_invoke},
    {"<｜tool_call_begin｜>", "function<｜tool_sep｜>", "<｜tool_call_end｜>"}};
static const struct reply_block atem_block = {
    "<atem:function_calls>", "</atem:function_calls>", BLOCK_TEXT | BLOCK_CALLS_START, {&atem_invoke}, {0}};
static const struct reply_block minicpm_block = {NULL, NULL, BLOCK_TEXT | BLOCK_CALLS_START, {&minicpm_function}, {0}};
static const struct reply_block kimi3_block = {
    "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", BLOCK_CALLS_START, {&kimi3_call}, {0}};
static const struct reply_block function_block = {NULL, NULL, BLOCK_TEXT | BLOCK_CALLS_START, {&function_json}, {0}};
static const struct reply_block python_tag_code = {"<|python_tag|>", NULL, BLOCK_CODE, {0}, {0}};
static const struct reply_block python_tag = {"<|python_tag|>", NULL, BLOCK_JSON | BLOCK_PYTHON, {0}, {0}};
static const struct reply_block recipient_block = {
    NULL, NULL, BLOCK_CALLS_START | BLOCK_AT_LINE, {&functionary_call}, {0}};
static const struct reply_block mistral_block = {"[TOOL_CALLS]", NULL, BLOCK_JSON, {&mistral_call}, {0}};
static const struct reply_block deepseek_block = {
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", BLOCK_FENCED | BLOCK_CALLS_START, {&deepseek_call}, {0}};
static const struct reply_block kimi_block = {"<|tool_calls_section_begin|>",
                                              "<|tool_calls_section_end|>",
                                              BLOCK_PYTHON_DATA | BLOCK_CALLS_START,
                                              {&kimi_call},
                                              {0}};
static const struct reply_block solar_block = {"<|tool_calls|>", "<|calls|>", BLOCK_CALLS_START, {&solar_call}, {0}};
static const struct reply_block mcp_block = {"<use_mcp_tool>", "</use_mcp_tool>", BLOCK_TEXT, {&mcp_call}, {0}};
static const struct reply_block cohere_block = {"<|START_ACTION|>", "<|END_ACTION|>", BLOCK_JSON, {0}, {0}};
static const struct reply_block action_block = {
    "Action:", NULL, TEXT_JSON | BLOCK_AT_LINE | BLOCK_FENCED, {&action_input}, {0}};
static const struct reply_block granite_block = {"<|tool_call|>", NULL, BLOCK_JSON, {0}, {0}};
static const struct reply_block granite_text_block = {"<tool_call>", "</tool_call>", TEXT_JSON, {0}, {0}};
static const struct reply_block function_call_block = {"<function_call>", NULL, TEXT_JSON, {0}, {0}};
static const struct reply_block functools_block = {"functools", NULL, TEXT_JSON, {0}, {0}};
static const struct reply_block phi_block = {"<|tool_call|>", "<|/tool_call|>", BLOCK_JSON, {0}, {0}};
static const struct reply_block apertus_block = {"<|tools_prefix|>", "<|tools_suffix|>", BLOCK_NAME_IS_KEY, {0}, {0}};
static const struct reply_block lfm_block = {
    "<|tool_call_start|>", "<|tool_call_end|>", BLOCK_PYTHON | BLOCK_JSON | BLOCK_FENCED, {0}, {0}};
static const struct reply_block olmo_block = {
    "<function_calls>", "</function_calls>", BLOCK_PYTHON | BLOCK_TEXT, {0}, {0}};
static const struct reply_block python_block = {
    "<|python_start|>", "<|python_end|>", BLOCK_PYTHON | BLOCK_JSON | BLOCK_SILENT, {0}, {0}};
static const struct reply_block python_end_block = {"<|python_end|>", NULL, BLOCK_JSON | BLOCK_SILENT, {0}, {0}};
static const struct reply_block gemma_block = {"<|tool_call>", "<tool_call|>", 0, {&gemma_call}, {0}};
static const struct reply_block function_gemma_block = {
    "<start_function_call>", "<end_function_call>", 0, {&function_gemma_call}, {0}};
static const struct reply_block internlm_block = {
    "<|action_start|>", "<|action_end|>", BLOCK_JSON, {0}, {"<|plugin|>"}};
static const struct reply_block sarashina_block = {"<|tool_calls|>", NULL, BLOCK_JSON | BLOCK_PYTHON_DATA, {0}, {0}};
static const struct reply_block gigachat_block = {"function call<|role_sep|>", "<|message_sep|>", BLOCK_JSON, {0}, {0}};
static const struct reply_block gigachat_token_block = {"<|function_call|>", "<|message_sep|>", BLOCK_JSON, {0}, {0}};
static const struct reply_block inkling_block = {"<|message_model|>",
                                                 "<|end_message|>",
                                                 BLOCK_JSON | BLOCK_SILENT,
                                                 {&inkling_call},
                                                 {"<|content_invoke_tool_json|>"}};
static const struct reply_block message_block = {NULL, "<|call|>", 0, {&message_call}, {"<|end|>", "<|return|>"}};

/* Answers that are nothing but calls. */
#define WHOLE (BLOCK_WHOLE | BLOCK_AT_START)
static const struct reply_block whole_object = {"{", NULL, WHOLE | BLOCK_JSON, {0}, {0}};
static const struct reply_block whole_list = {"[", NULL, WHOLE | BLOCK_JSON, {0}, {0}};
static const struct reply_block whole_fence = {"```json", NULL, WHOLE | BLOCK_JSON | BLOCK_FENCED, {0}, {0}};
static const struct reply_block whole_python = {"[", NULL, WHOLE | BLOCK_PYTHON, {0}, {0}};
static const struct reply_block whole_dict = {"{", NULL, WHOLE | BLOCK_JSON | BLOCK_PYTHON_DATA, {0}, {0}};
static const struct reply_block whole_data = {"[", NULL, WHOLE | BLOCK_JSON | BLOCK_PYTHON_DATA, {0}, {0}};

/* ---- messages ---- */

static const struct reply_messages harmony_messages = {
    "<|start|>", "<|channel|>", "<|message|>", {"<|end|>", "<|call|>", "<|return|>", "<|constrain|>"}, &message_block};
static const struct reply_messages atem_messages = {
    "<|start|>", NULL, "<|message|>", {"<|eom|>", "<|eot|>", "<|end_of_text|>"}, NULL};

/* ---- formats ---- */

/* Detection takes the first row whose marks are all in the template; then, by the vocabulary, whose tokens are all in
 * it. So rows with rarer marks stand before those whose marks are a part of theirs. */
const struct reply_format reply_format_table[] = {
    {.name = "harmony",
     .messages = &harmony_messages,
     .drops = {"<|message|>"},
     .marks = {"<|channel|>", "<|message|>"},
     .tokens = {"<|channel|>", "<|constrain|>"}},
    {.name = "muse-glimmer",
     .messages = &atem_messages,
     .blocks = {&atem_block},
     .marks = {"atem:function_calls", "<|message|>"}},
    {.name = "minimax-m3", .thoughts = {&minimax_think}, .blocks = {&minimax3_block}, .marks = {MINIMAX3}},
    {.name = "minimax-m2",
     .thoughts = {&think},
     .blocks = {&minimax_block},
     .marks = {"<minimax:tool_call>"},
     .tokens = {"<minimax:tool_call>"}},
    {.name = "longcat",
     .thoughts = {&longcat_think},
     .blocks = {&longcat_block},
     .marks = {"<longcat_tool_call>"},
     .tokens = {"<longcat_tool_call>"}},
    {.name = "seed-oss",
     .thoughts = {&seed_think},
     .blocks = {&seed_block},
     .marks = {"seed:tool_call"},
     .tokens = {"<seed:tool_call>"}},
    {.name = "hunyuan-3",
     .thoughts = {&hunyuan_think},
     .blocks = {&hunyuan3_block},
     .marks = {"<tool_calls:opensource>"},
     .tokens = {"<tool_calls:opensource>"}},
    {.name = "mirothinker", .thoughts = {&think}, .blocks = {&mcp_block}, .marks = {"<use_mcp_tool>"}},
    {.name = "minicpm-5",
     .thoughts = {&think},
     .blocks = {&minicpm_block},
     .drops = {"<tool_sep>"},
     .marks = {"<function name=", "<param name="}},
    {.name = "glm-4.5",
     .thoughts = {&think},
     .blocks = {&glm_block},
     .marks = {"<arg_key>", "<tool_call>"},
     .tokens = {"<arg_key>", "<tool_call>"}},
    {.name = "tiny-aya",
     .thoughts = {&cohere_think},
     .blocks = {&coder_block},
     .drops = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"},
     .marks = {"<tool_call>", "<function=", "<|END_RESPONSE|>"}},
    {.name = "qwen3-coder",
     .thoughts = {&think},
     .blocks = {&coder_block},
     .marks = {"<tool_call>", "<function=", "<parameter="}},
    {.name = "functionary-v3.1",
     .blocks = {&function_block, &python_tag_code},
     .drops = {"<|eom_id|>", "<|eot_id|>"},
     .marks = {"<function=", "</function>"}},
    {.name = "functionary-v3.2",
     .blocks = {&recipient_block},
     .drops = {"<|eot_id|>"},
     .primer = ">>>",
     .marks = {">>>all"}},
    {.name = "deepseek-v3.2",
     .thoughts = {&think},
     .blocks = {&dsml_block, &dsml4_block},
     .marks = {"DSML"},
     .tokens = {"｜DSML｜"}},
    {.name = "deepseek-v3",
     .thoughts = {&think},
     .blocks = {&deepseek_block},
     .marks = {"<｜tool▁calls▁begin｜>", "```json"}},
    {.name = "deepseek-v3.1",
     .thoughts = {&think},
     .blocks = {&deepseek_block},
     .marks = {"<｜tool▁calls▁begin｜>"},
     .tokens = {"<｜tool▁calls▁begin｜>"}},
    {.name = "step-3",
     .thoughts = {&think},
     .blocks = {&step_block},
     .marks = {"steptml:invoke"},
     .tokens = {"<｜tool_calls_begin｜>"}},
    {.name = "kimi-k3",
     .thoughts = {&kimi3_think},
     .blocks = {&kimi3_block},
     .drops = {"<|open|>response<|sep|>", "<|close|>response<|sep|>"},
     .marks = {"<|open|>", "<|sep|>", "argument"},
     .tokens = {"<|open|>", "<|close|>", "<|sep|>"}},
    {.name = "kimi-k2",
     .thoughts = {&think},
     .blocks = {&kimi_block},
     .marks = {"<|tool_calls_section_begin|>"},
     .tokens = {"<|tool_calls_section_begin|>"}},
    {.name = "mistral-v11",
     .thoughts = {&mistral_think, &think},
     .blocks = {&mistral_block},
     .marks = {"[TOOL_CALLS]", "[ARGS]"},
     .tokens = {"[TOOL_CALLS]", "[ARGS]"}},
    {.name = "mistral-v3",
     .thoughts = {&mistral_think, &think},
     .blocks = {&mistral_block, &whole_list},
     .marks = {"[TOOL_CALLS]"},
     .tokens = {"[TOOL_CALLS]"}},
    {.name = "gemma4",
     .thoughts = {&gemma_think},
     .blocks = {&gemma_block},
     .drops = {"<channel|>", "<|channel>", "<turn|>", "<|turn>", "<|think|>", "<tool_call|>"},
     .marks = {"<|tool_call>", "<|\"|>"},
     .tokens = {"<|tool_call>", "<tool_call|>"}},
    {.name = "gemma4",
     .thoughts = {&gemma_think},
     .blocks = {&gemma_block},
     .drops = {"<channel|>", "<|channel>", "<turn|>", "<|turn>", "<|think|>", "<tool_call|>"},
     .marks = {"<|channel>thought"}},
    {.name = "functiongemma",
     .blocks = {&function_gemma_block},
     .drops = {"<end_of_turn>"},
     .marks = {"<start_function_call>"},
     .tokens = {"<start_function_call>", "<escape>"}},
    {.name = "apertus",
     .thoughts = {&apertus_think},
     .blocks = {&apertus_block},
     .marks = {"<|tools_prefix|>"},
     .tokens = {"<|tools_prefix|>"}},
    {.name = "solar-open",
     .thoughts = {&solar_think},
     .blocks = {&solar_block},
     .drops = {"<|begin|>assistant", "<|content|>", "<|end|>", "<|flush|>", "<|calls|>"},
     .marks = {"<|tool_call:begin|>"},
     .tokens = {"<|tool_call:begin|>"}},
    {.name = "inkling",
     .thoughts = {&inkling_think},
     .blocks = {&inkling_block},
     .drops = {"<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"},
     .marks = {"<|content_invoke_tool_json|>"},
     .tokens = {"<|content_invoke_tool_json|>"}},
    {.name = "command-r7b",
     .thoughts = {&cohere_think},
     .blocks = {&cohere_block},
     .drops = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"},
     .drop_tag = "co",
     .marks = {"<|START_ACTION|>"},
     .tokens = {"<|START_ACTION|>"}},
    {.name = "command-r",
     .blocks = {&action_block},
     .drops = {"<|END_OF_TURN_TOKEN|>"},
     .drop_tag = "co",
     .marks = {"Action:", "```json", "tool_name"}},
    {.name = "minicpm-3",
     .thoughts = {&minicpm_think},
     .blocks = {&lfm_block},
     .marks = {"<|tool_call_start|>", "<|thought_start|>"}},
    {.name = "lfm2",
     .thoughts = {&think},
     .blocks = {&lfm_block, &whole_python},
     .marks = {"<|tool_call_start|>"},
     .tokens = {"<|tool_call_start|>"}},
    {.name = "lfm2", .thoughts = {&think}, .blocks = {&lfm_block, &whole_python}, .marks = {"List of tools: "}},
    {.name = "nemotron-v2",
     .thoughts = {&think},
     .blocks = {&nemotron_block},
     .marks = {"<TOOLCALL>"},
     .tokens = {"<TOOLCALL>"}},
    {.name = "olmo3", .thoughts = {&think}, .blocks = {&olmo_block}, .marks = {"<function_calls>"}},
    {.name = "phi-4-mini",
     .thoughts = {&think},
     .blocks = {&functools_block, &phi_block, &whole_dict},
     .marks = {"functools"}},
    {.name = "phi-4-mini",
     .thoughts = {&think},
     .blocks = {&functools_block, &phi_block, &whole_dict},
     .marks = {"<|tool|>", "<|/tool|>"}},
    {.name = "granite-3",
     .thoughts = {&think, &granite_think},
     .blocks = {&granite_block, &granite_text_block, &function_call_block},
     .drops = {"<|end_of_text|>"},
     .wrap_open = "<response>",
     .wrap_close = "</response>",
     .marks = {"<|tool_call|>"}},
    {.name = "granite-3",
     .thoughts = {&think, &granite_think},
     .blocks = {&granite_block, &granite_text_block, &function_call_block},
     .marks = {"<function_call>", "no_function"}},
    {.name = "internlm2",
     .blocks = {&internlm_block},
     .marks = {"<|action_start|>"},
     .tokens = {"<|action_start|>", "<|plugin|>"}},
    {.name = "gigachat-3",
     .blocks = {&gigachat_block, &gigachat_token_block},
     .drops = {"<|message_sep|>"},
     .marks = {"<|role_sep|>", "function call"},
     .tokens = {"<|role_sep|>", "<|function_call|>"}},
    {.name = "sarashina", .blocks = {&sarashina_block, &whole_data}, .marks = {"<|tool_calls|>"}},
    {.name = "apriel",
     .thoughts = {&apriel_think, &think},
     .blocks = {&tool_calls_block},
     .drops = {"[END FINAL RESPONSE]", "<|end|>"},
     .marks = {"[BEGIN FINAL RESPONSE]", "<tool_calls>"}},
    {.name = "hunyuan",
     .thoughts = {&think},
     .blocks = {&tool_calls_block},
     .wrap_open = "<answer>",
     .wrap_close = "</answer>",
     .marks = {"<tool_calls>", "<|startoftext|>"}},
    {.name = "minimax-m1", .thoughts = {&think}, .blocks = {&tool_calls_block}, .marks = {"<tool_calls>"}},
    {.name = "ernie-4.5",
     .thoughts = {&think},
     .blocks = {&hermes_block},
     .wrap_open = "<response>",
     .wrap_close = "</response>",
     .marks = {"<tool_call>", "<response>"}},
    {.name = "hermes", .thoughts = {&think}, .blocks = {&hermes_block}, .marks = {"<tool_call>"}},
    {.name = "exaone-4", .thoughts = {&think, &thought}, .blocks = {&hermes_block}},
    {.name = "pythonic",
     .thoughts = {&think},
     .blocks = {&python_block, &python_end_block, &whole_python, &whole_object},
     .drops = {"<|eom|>", "<|eot|>", "<|eom_id|>", "<|eot_id|>"},
     .marks = {"[func_name1("}},
    {.name = "pythonic",
     .thoughts = {&think},
     .blocks = {&python_block, &python_end_block, &whole_python, &whole_object},
     .drops = {"<|eom|>", "<|eot|>", "<|eom_id|>", "<|eot_id|>"},
     .marks = {"<|python_start|>"}},
    {.name = "llama3-json",
     .blocks = {&python_tag, &whole_object},
     .drops = {"<|eom_id|>", "<|eot_id|>"},
     .marks = {"\"name\": function name, \"parameters\": dictionary"}},
    {.name = "llama3-json",
     .blocks = {&python_tag, &whole_object},
     .drops = {"<|eom_id|>", "<|eot_id|>"},
     .marks = {"<|python_tag|>"},
     .tokens = {"<|python_tag|>"}},
    {.name = "xlam",
     .thoughts = {&think},
     .blocks = {&whole_list, &whole_fence, &hermes_block, &mistral_block},
     .marks = {"make calls in a single JSON array"}},
    {.name = "kimi-vl", .thoughts = {&kimi_think}, .marks = {"◁think▷"}, .tokens = {"◁think▷"}},
    {.name = "exaone-deep", .thoughts = {&thought}, .marks = {"<thought>"}},
    {.name = "reasoning", .thoughts = {&think, &thought, &kimi_think, &mistral_think}},
    {.name = "generic-json", .thoughts = {&think}, .blocks = {&whole_object, &whole_list, &whole_fence}},
    {.name = "none"},
    {.name = NULL},
};
