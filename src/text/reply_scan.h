/* SPDX-License-Identifier: Apache-2.0 */
/* Where does this value end? A scanner for a JSON object, or a Python literal or argument list, that arrives byte by
 * byte.
 *
 * Two machines run side by side. One only counts brackets outside of strings; it finds the end of anything that is
 * roughly well-formed. The other is a strict JSON recogniser; it says how much of the text is certainly JSON (that much
 * of a call's arguments may be sent out), where the members of the outermost object lie, and since which byte the text
 * is no JSON. Neither allocates. */
#ifndef MLXCEL_TEXT_REPLY_SCAN_H
#define MLXCEL_TEXT_REPLY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCAN_MAX_DEPTH = 256 };

/* Members of the outermost object that matter in a call; MEMBER_OTHER is every other key. */
enum scan_member {
    MEMBER_NAME,
    MEMBER_ARGUMENTS,
    MEMBER_ID,
    N_SCAN_MEMBERS,
    MEMBER_KNOWN = N_SCAN_MEMBERS,
    MEMBER_OTHER
};

struct scan_range {
    size_t from, to; /* bytes from the start of the value; to = 0: not seen */
};

struct value_scan {
    size_t position; /* bytes taken */
    bool is_done;    /* the brackets are closed */
    bool is_json;    /* no error so far */
    bool is_broken;  /* neither JSON nor likely to be a Python literal: strings cannot be told from text any more */
    /* brackets */
    int depth;
    char quote, maybe_triple, previous;
    bool is_escaped, is_triple;
    unsigned quotes_in_row;
    /* JSON */
    uint8_t state, hex_left, word_at;
    bool in_key;
    const char *word;
    int json_depth;
    uint8_t is_object[SCAN_MAX_DEPTH];
    enum scan_member member;
    struct scan_range key, value;
    struct scan_range members[N_SCAN_MEMBERS];
    size_t n_members;   /* of the outermost object, complete ones */
    bool has_other_key; /* a key of the outermost object that no call has */
};

/* is_python: the value is a Python argument list; it is never taken for JSON. */
void value_scan_begin(struct value_scan *scan, bool is_python);
/* Takes base[scan->position], where base is the start of the value. */
void value_scan_next(struct value_scan *scan, const char *base);
/* Scans a whole value. */
void value_scan_all(struct value_scan *scan, const char *base, size_t length);

#endif
