/* SPDX-License-Identifier: Apache-2.0 */
/* Categories and simple mappings come from utf8proc; what Python adds to them stands in tables here, made from
 * Unicode 14's UnicodeData, SpecialCasing and DerivedCoreProperties, which Python 3.11 follows. */
#include "text/jinja/unicode.h"

#include "base/utf8.h"
#include "text/jinja/text.h"

#include <utf8proc.h>

struct range {
    uint32_t first, last;
};

struct special {
    uint32_t c, upper[3], title[3];
};

/* Upper case, but not of category Lu. */
static const struct range other_upper[] = {
    {0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
};

/* Lower case, but not of category Ll. */
static const struct range other_lower[] = {
    {0xaa, 0xaa},     {0xba, 0xba},     {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},     {0x345, 0x345},
    {0x37a, 0x37a},   {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
    {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},   {0xa69c, 0xa69d},   {0xa770, 0xa770},
    {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
};

/* str.isdigit, but not str.isdecimal. */
static const struct range digits[] = {
    {0xb2, 0xb3},     {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247c},   {0x2488, 0x2490},
    {0x24ea, 0x24ea}, {0x24f5, 0x24fd},   {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},
    {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
};

/* str.isnumeric, but letters: the numerals of Han. */
static const struct range numerals[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382a, 0x382a},   {0x3b4d, 0x3b4d},   {0x4e00, 0x4e00},
    {0x4e03, 0x4e03},   {0x4e07, 0x4e07},   {0x4e09, 0x4e09},   {0x4e5d, 0x4e5d},   {0x4e8c, 0x4e8c},
    {0x4e94, 0x4e94},   {0x4e96, 0x4e96},   {0x4ebf, 0x4ec0},   {0x4edf, 0x4edf},   {0x4ee8, 0x4ee8},
    {0x4f0d, 0x4f0d},   {0x4f70, 0x4f70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
    {0x516b, 0x516b},   {0x516d, 0x516d},   {0x5341, 0x5341},   {0x5343, 0x5345},   {0x534c, 0x534c},
    {0x53c1, 0x53c4},   {0x56db, 0x56db},   {0x58f1, 0x58f1},   {0x58f9, 0x58f9},   {0x5e7a, 0x5e7a},
    {0x5efe, 0x5eff},   {0x5f0c, 0x5f0e},   {0x5f10, 0x5f10},   {0x62fe, 0x62fe},   {0x634c, 0x634c},
    {0x67d2, 0x67d2},   {0x6f06, 0x6f06},   {0x7396, 0x7396},   {0x767e, 0x767e},   {0x8086, 0x8086},
    {0x842c, 0x842c},   {0x8cae, 0x8cae},   {0x8cb3, 0x8cb3},   {0x8d30, 0x8d30},   {0x9621, 0x9621},
    {0x9646, 0x9646},   {0x964c, 0x964c},   {0x9678, 0x9678},   {0x96f6, 0x96f6},   {0xf96b, 0xf96b},
    {0xf973, 0xf973},   {0xf978, 0xf978},   {0xf9b2, 0xf9b2},   {0xf9d1, 0xf9d1},   {0xf9d3, 0xf9d3},
    {0xf9fd, 0xf9fd},   {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200e2, 0x200e2}, {0x20121, 0x20121},
    {0x2092a, 0x2092a}, {0x20983, 0x20983}, {0x2098c, 0x2098c}, {0x2099c, 0x2099c}, {0x20aea, 0x20aea},
    {0x20afd, 0x20afd}, {0x20b19, 0x20b19}, {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23b1b, 0x23b1b},
    {0x2626d, 0x2626d}, {0x2f890, 0x2f890},
};

/* SpecialCasing.txt: characters whose upper or title case has several code points; 0 = the simple mapping. */
static const struct special specials[] = {
    {0xdf, {0x53, 0x53}, {0x53, 0x73}},
    {0x149, {0x2bc, 0x4e}, {0x2bc, 0x4e}},
    {0x1f0, {0x4a, 0x30c}, {0x4a, 0x30c}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0x1e96, {0x48, 0x331}, {0x48, 0x331}},
    {0x1e97, {0x54, 0x308}, {0x54, 0x308}},
    {0x1e98, {0x57, 0x30a}, {0x57, 0x30a}},
    {0x1e99, {0x59, 0x30a}, {0x59, 0x30a}},
    {0x1e9a, {0x41, 0x2be}, {0x41, 0x2be}},
    {0x1f50, {0x3a5, 0x313}, {0x3a5, 0x313}},
    {0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}},
    {0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399}, {0}},
    {0x1f81, {0x1f09, 0x399}, {0}},
    {0x1f82, {0x1f0a, 0x399}, {0}},
    {0x1f83, {0x1f0b, 0x399}, {0}},
    {0x1f84, {0x1f0c, 0x399}, {0}},
    {0x1f85, {0x1f0d, 0x399}, {0}},
    {0x1f86, {0x1f0e, 0x399}, {0}},
    {0x1f87, {0x1f0f, 0x399}, {0}},
    {0x1f88, {0x1f08, 0x399}, {0}},
    {0x1f89, {0x1f09, 0x399}, {0}},
    {0x1f8a, {0x1f0a, 0x399}, {0}},
    {0x1f8b, {0x1f0b, 0x399}, {0}},
    {0x1f8c, {0x1f0c, 0x399}, {0}},
    {0x1f8d, {0x1f0d, 0x399}, {0}},
    {0x1f8e, {0x1f0e, 0x399}, {0}},
    {0x1f8f, {0x1f0f, 0x399}, {0}},
    {0x1f90, {0x1f28, 0x399}, {0}},
    {0x1f91, {0x1f29, 0x399}, {0}},
    {0x1f92, {0x1f2a, 0x399}, {0}},
    {0x1f93, {0x1f2b, 0x399}, {0}},
    {0x1f94, {0x1f2c, 0x399}, {0}},
    {0x1f95, {0x1f2d, 0x399}, {0}},
    {0x1f96, {0x1f2e, 0x399}, {0}},
    {0x1f97, {0x1f2f, 0x399}, {0}},
    {0x1f98, {0x1f28, 0x399}, {0}},
    {0x1f99, {0x1f29, 0x399}, {0}},
    {0x1f9a, {0x1f2a, 0x399}, {0}},
    {0x1f9b, {0x1f2b, 0x399}, {0}},
    {0x1f9c, {0x1f2c, 0x399}, {0}},
    {0x1f9d, {0x1f2d, 0x399}, {0}},
    {0x1f9e, {0x1f2e, 0x399}, {0}},
    {0x1f9f, {0x1f2f, 0x399}, {0}},
    {0x1fa0, {0x1f68, 0x399}, {0}},
    {0x1fa1, {0x1f69, 0x399}, {0}},
    {0x1fa2, {0x1f6a, 0x399}, {0}},
    {0x1fa3, {0x1f6b, 0x399}, {0}},
    {0x1fa4, {0x1f6c, 0x399}, {0}},
    {0x1fa5, {0x1f6d, 0x399}, {0}},
    {0x1fa6, {0x1f6e, 0x399}, {0}},
    {0x1fa7, {0x1f6f, 0x399}, {0}},
    {0x1fa8, {0x1f68, 0x399}, {0}},
    {0x1fa9, {0x1f69, 0x399}, {0}},
    {0x1faa, {0x1f6a, 0x399}, {0}},
    {0x1fab, {0x1f6b, 0x399}, {0}},
    {0x1fac, {0x1f6c, 0x399}, {0}},
    {0x1fad, {0x1f6d, 0x399}, {0}},
    {0x1fae, {0x1f6e, 0x399}, {0}},
    {0x1faf, {0x1f6f, 0x399}, {0}},
    {0x1fb2, {0x1fba, 0x399}, {0x1fba, 0x345}},
    {0x1fb3, {0x391, 0x399}, {0}},
    {0x1fb4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1fb6, {0x391, 0x342}, {0x391, 0x342}},
    {0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1fbc, {0x391, 0x399}, {0}},
    {0x1fc2, {0x1fca, 0x399}, {0x1fca, 0x345}},
    {0x1fc3, {0x397, 0x399}, {0}},
    {0x1fc4, {0x389, 0x399}, {0x389, 0x345}},
    {0x1fc6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1fcc, {0x397, 0x399}, {0}},
    {0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342}, {0x399, 0x342}},
    {0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}},
    {0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313}, {0x3a1, 0x313}},
    {0x1fe6, {0x3a5, 0x342}, {0x3a5, 0x342}},
    {0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}},
    {0x1ff2, {0x1ffa, 0x399}, {0x1ffa, 0x345}},
    {0x1ff3, {0x3a9, 0x399}, {0}},
    {0x1ff4, {0x38f, 0x399}, {0x38f, 0x345}},
    {0x1ff6, {0x3a9, 0x342}, {0x3a9, 0x342}},
    {0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}},
    {0x1ffc, {0x3a9, 0x399}, {0}},
    {0xfb00, {0x46, 0x46}, {0x46, 0x66}},
    {0xfb01, {0x46, 0x49}, {0x46, 0x69}},
    {0xfb02, {0x46, 0x4c}, {0x46, 0x6c}},
    {0xfb03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xfb04, {0x46, 0x46, 0x4c}, {0x46, 0x66, 0x6c}},
    {0xfb05, {0x53, 0x54}, {0x53, 0x74}},
    {0xfb06, {0x53, 0x54}, {0x53, 0x74}},
    {0xfb13, {0x544, 0x546}, {0x544, 0x576}},
    {0xfb14, {0x544, 0x535}, {0x544, 0x565}},
    {0xfb15, {0x544, 0x53b}, {0x544, 0x56b}},
    {0xfb16, {0x54e, 0x546}, {0x54e, 0x576}},
    {0xfb17, {0x544, 0x53d}, {0x544, 0x56d}},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool in_ranges(const struct range *ranges, size_t n, uint32_t c) {
    size_t low = 0;
    while (low < n) {
        size_t middle = (low + n) / 2;
        if (c > ranges[middle].last)
            low = middle + 1;
        else if (c < ranges[middle].first)
            n = middle;
        else
            return true;
    }
    return false;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

static bool is_letter(utf8proc_category_t k) { return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO; }

bool jinja_is_space(uint32_t c) {
    if (c <= 0x20) return c == 0x20 || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    if (c < 0x1680) return c == 0x85 || c == 0xa0;
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

bool jinja_is_line_break(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool jinja_is_alpha(uint32_t c) {
    if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
    return is_letter(category(c));
}

bool jinja_is_decimal(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool jinja_is_digit(uint32_t c) { return jinja_is_decimal(c) || in_ranges(digits, COUNT(digits), c); }

bool jinja_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || in_ranges(numerals, COUNT(numerals), c);
}

bool jinja_is_alnum(uint32_t c) { return jinja_is_alpha(c) || jinja_is_numeric(c); }

bool jinja_is_upper(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LU || in_ranges(other_upper, COUNT(other_upper), c);
}

bool jinja_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL || in_ranges(other_lower, COUNT(other_lower), c);
}

bool jinja_is_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool jinja_is_printable(uint32_t c) {
    if (c < 0x7f) return c >= 0x20;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool jinja_is_word(uint32_t c) { return c == '_' || jinja_is_alnum(c); }

bool jinja_is_name_start(uint32_t c) {
    if (c < 0x80) return c == '_' || jinja_is_alpha(c);
    utf8proc_category_t k = category(c);
    return is_letter(k) || k == UTF8PROC_CATEGORY_NL;
}

bool jinja_is_name(uint32_t c) {
    if (c < 0x80) return c == '_' || jinja_is_alnum(c);
    utf8proc_category_t k = category(c);
    return is_letter(k) || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
           k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC || c == 0xb7;
}

int jinja_decimal_digit(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9' ? (int)(c - '0') : -1;
    if (!jinja_is_decimal(c)) return -1;
    uint32_t zero = c; /* digits stand in runs of ten or a multiple of it */
    while (c - zero < 60 && jinja_is_decimal(zero - 1)) zero--;
    return (int)((c - zero) % 10);
}

void jinja_trim_space(const char *text, size_t *from, size_t *to) {
    while (*from < *to) {
        size_t at = *from;
        if (!jinja_is_space(jinja_next_char(text, &at))) break;
        *from = at;
    }
    while (*from < *to) {
        size_t at = *to;
        if (!jinja_is_space(jinja_previous_char(text, &at))) break;
        *to = at;
    }
}

bool jinja_append_char(struct buffer *out, uint32_t c) {
    char bytes[4];
    return buffer_append(out, bytes, utf8_encode(c, bytes));
}

static const struct special *find_special(uint32_t c) {
    if (c < 0xdf) return NULL;
    size_t low = 0, n = COUNT(specials);
    while (low < n) {
        size_t middle = (low + n) / 2;
        if (c == specials[middle].c) return &specials[middle];
        if (c > specials[middle].c)
            low = middle + 1;
        else
            n = middle;
    }
    return NULL;
}

static bool append_all(struct buffer *out, const uint32_t mapping[3]) {
    for (int i = 0; i < 3 && mapping[i]; i++) jinja_append_char(out, mapping[i]);
    return !out->failed;
}

bool jinja_append_upper(struct buffer *out, uint32_t c) {
    if (c < 0x80) return buffer_putc(out, (char)(c >= 'a' && c <= 'z' ? c - 32 : c));
    const struct special *s = find_special(c);
    if (s) return append_all(out, s->upper);
    return jinja_append_char(out, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c));
}

bool jinja_append_title(struct buffer *out, uint32_t c) {
    if (c < 0x80) return jinja_append_upper(out, c);
    const struct special *s = find_special(c);
    if (s && s->title[0]) return append_all(out, s->title);
    return jinja_append_char(out, (uint32_t)utf8proc_totitle((utf8proc_int32_t)c));
}

bool jinja_append_folded(struct buffer *out, uint32_t c) {
    if (c < 0x80) return buffer_putc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    utf8proc_int32_t mapped[8];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, mapped, 8, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 8) return jinja_append_char(out, c);
    for (utf8proc_ssize_t i = 0; i < n; i++) jinja_append_char(out, (uint32_t)mapped[i]);
    return !out->failed;
}

static bool is_cased(uint32_t c) { return jinja_is_upper(c) || jinja_is_lower(c) || jinja_is_title(c); }

static bool is_case_ignorable(uint32_t c) {
    if (c < 0x80) return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == 0xb7 || c == 0x387 || c == 0x55f ||
           c == 0x5f4 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xfe13 || c == 0xfe52 ||
           c == 0xfe55 || c == 0xff07 || c == 0xff0e || c == 0xff1a;
}

/* A capital sigma is final when a cased letter stands before it and none after it, ignoring marks in between. */
static bool is_final_sigma(const char *text, size_t length, size_t at) {
    size_t before = at, after = at + 2;
    uint32_t c = 0;
    while (before) {
        c = jinja_previous_char(text, &before);
        if (!is_case_ignorable(c)) break;
        c = 0;
    }
    if (!c || !is_cased(c)) return false;
    while (after < length) {
        c = jinja_next_char(text, &after);
        if (!is_case_ignorable(c)) return !is_cased(c);
    }
    return true;
}

bool jinja_append_lower(struct buffer *out, const char *text, size_t length, size_t at) {
    size_t start = at;
    uint32_t c = jinja_next_char(text, &at);
    if (c < 0x80) return buffer_putc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    if (c == 0x3a3) return jinja_append_char(out, is_final_sigma(text, length, start) ? 0x3c2 : 0x3c3);
    if (c == 0x130) return buffer_puts(out, "i\xcc\x87");
    return jinja_append_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
}
