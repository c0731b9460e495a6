/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of JSON Schema as regular expressions. Where a format is not regular a part of it is taken: leap seconds stand
 * at 23:59:60 in UTC alone. Formats that are not in the table restrict nothing. */
#include "text/grammar/schema.h"

#include <string.h>

#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|" \
    "1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define CLOCK                                                                                                          \
    "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|23:59:"   \
    "60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))"
#define LABEL     "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define BYTE      "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4      "(?:" BYTE "\\.){3}" BYTE
#define HEX       "[0-9A-Fa-f]{1,4}"
#define IPV6_TAIL "(?:" HEX ":" HEX "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:" HEX ":){6}" IPV6_TAIL "|::(?:" HEX ":){5}" IPV6_TAIL "|(?:" HEX ")?::(?:" HEX ":){4}" IPV6_TAIL              \
    "|(?:(?:" HEX ":){0,1}" HEX ")?::(?:" HEX ":){3}" IPV6_TAIL "|(?:(?:" HEX ":){0,2}" HEX ")?::(?:" HEX              \
    ":){2}" IPV6_TAIL "|(?:(?:" HEX ":){0,3}" HEX ")?::" HEX ":" IPV6_TAIL "|(?:(?:" HEX ":){0,4}" HEX                 \
    ")?::" IPV6_TAIL "|(?:(?:" HEX ":){0,5}" HEX ")?::" HEX "|(?:(?:" HEX ":){0,6}" HEX ")?::"
#define URI_CHAR        "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
#define URI_HOST_CHAR   "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY       "(?:(?:" URI_HOST_CHAR "|:)*@)?(?:" URI_HOST_CHAR "*|\\[(?:" IPV6 ")\\])(?::[0-9]*)?"
#define URI_REST        "(?:\\?(?:" URI_CHAR "|\\?)*)?(?:#(?:" URI_CHAR "|\\?)*)?"
#define URI_PATH        "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})" URI_CHAR "*)?"
#define URI             "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY "(?:/" URI_CHAR "*)?|/?" URI_PATH ")" URI_REST
#define URI_SEGMENT     "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"
#define DURATION_TIME   "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DAYS   "[0-9]+D"
#define DURATION_MONTHS "[0-9]+M(?:" DURATION_DAYS ")?"

static const struct {
    const char *name, *regex;
} FORMATS[] = {
    {"date", DATE},
    {"time", CLOCK},
    {"date-time", DATE "[Tt]" CLOCK},
    {"duration", "P(?:(?:[0-9]+Y(?:" DURATION_MONTHS ")?|" DURATION_MONTHS "|" DURATION_DAYS ")(?:" DURATION_TIME
                 ")?|" DURATION_TIME "|[0-9]+W)"},
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" LABEL "(?:\\." LABEL ")*"},
    {"hostname", LABEL "(?:\\." LABEL ")*"},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"uri-reference",
     URI "|(?://" AUTHORITY "(?:/" URI_CHAR "*)?|/" URI_PATH "|" URI_SEGMENT "+(?:/" URI_CHAR "*)?|)" URI_REST},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
};

const struct automaton *schema_format(struct schema *s, const struct json *name) {
    if (!s->asserts_formats || !json_is_string(name)) return NULL;
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (!json_string_is(name, FORMATS[i].name)) continue;
        struct arena *arena = &s->arena;
        uint64_t found;
        if (map_get(&s->format_map, FORMATS[i].name, strlen(FORMATS[i].name), &found))
            return (const struct automaton *)(uintptr_t)found;
        const struct pattern *p = regex_parse(arena, FORMATS[i].regex, strlen(FORMATS[i].regex), 0, s->err);
        const struct automaton *a = p ? schema_keep(s, automaton_from_pattern(arena, p, s->err)) : NULL;
        if (a && !strcmp(FORMATS[i].name, "hostname")) { /* 253 characters in all */
            const struct automaton *length = schema_keep(s, automaton_length(arena, 1, 253, s->err));
            a = length ? schema_combine(s, a, length, AUTOMATON_AND) : NULL;
        }
        if (a && !map_put(&s->format_map, FORMATS[i].name, strlen(FORMATS[i].name), (uint64_t)(uintptr_t)a, NULL))
            error_memory(s->err, "JSON Schema");
        return a;
    }
    return NULL;
}
