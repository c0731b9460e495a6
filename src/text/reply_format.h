/* SPDX-License-Identifier: Apache-2.0 */
/* How a format is described: its kinds of thoughts, the blocks that hold calls, markers without a meaning for the
 * reader, and perhaps messages with headers. All strings are literal text of the model's output. */
#ifndef MLXCEL_TEXT_REPLY_FORMAT_H
#define MLXCEL_TEXT_REPLY_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MAX_CALL_FORMS = 3,
    MAX_SKIPS = 4,
    MAX_THOUGHTS = 8,
    MAX_BLOCKS = 5,
    MAX_DROPS = 8,
    MAX_MARKS = 3,
    MAX_ENDS = 4
};

/* A thought: everything from open to close. It may begin where the answer begins, or anywhere if is_token (the markers
 * are tokens of their own, which no one quotes). */
struct reply_thought {
    const char *open, *close;
    bool is_token;
};

/* One call whose name stands outside of the arguments: HEAD arguments CLOSE.
 *
 * The head is a name between `open` and `head_end`, unless name_attribute or name_from says where in the head the name
 * stands. Arguments are a JSON object (CALL_JSON), Gemma's notation (quote), or parameters, each
 *   param_open KEY key_end [value_open] VALUE param_close
 * where with key_attribute KEY is a list of attributes, key="..." type="...". */
struct reply_call {
    const char *open;     /* "" = the head begins where the block does */
    const char *head_end; /* NULL = the head ends before '{', param_open or the close */
    const char *close;    /* may be missing in the output when a JSON object is complete */
    const char *name_attribute;
    const char *name_from, *name_to; /* the name is what stands between them; name_to NULL = up to the head's end */
    const char *id_from;             /* the name ends and an id begins here */
    const char *second_head;         /* a head equal to this word is followed by the name on a line of its own */
    const char *param_open, *key_end, *value_open, *param_close;
    const char *key_attribute, *type_attribute; /* type: "string" or "true" = text, else JSON */
    const char *quote;                          /* begins and ends strings in Gemma's notation */
    unsigned flags;
};

enum {
    CALL_JSON = 1,         /* arguments may be a JSON object */
    CALL_HEAD_IS_ID = 2,   /* the whole head is the id: functions.NAME:NUMBER */
    CALL_ID_FIRST = 4,     /* the head up to name_from is the id */
    CALL_LOSES_BREAKS = 8, /* one line break at each end of a value is layout */
    CALL_HEAD_ONLY = 16,   /* the head says nothing that the JSON object behind it does not repeat */
    CALL_ALL_IS_TEXT = 32, /* the name "all" introduces content */
    CALL_CDATA = 64,       /* values may be wrapped in <![CDATA[ ]]> */
    CALL_BRACE = 128,      /* the head may end before '{' without head_end */
};

/* Calls between an opening and a closing marker. */
struct reply_block {
    const char *open;  /* NULL = the calls' own `open` starts the block (BLOCK_CALLS_START) */
    const char *close; /* NULL = the block ends where no further call follows */
    unsigned flags;
    const struct reply_call *calls[MAX_CALL_FORMS];
    const char *skips[MAX_SKIPS]; /* markers between open and call that say nothing */
};

enum {
    BLOCK_JSON = 1,           /* calls are JSON objects with name and arguments, alone or in lists */
    BLOCK_NAME_IS_KEY = 2,    /* calls are JSON objects {"name": {arguments}} */
    BLOCK_PYTHON = 4,         /* calls are Python call expressions */
    BLOCK_PYTHON_DATA = 8,    /* objects may be Python dictionaries */
    BLOCK_FENCED = 16,        /* the calls may stand in a Markdown code fence */
    BLOCK_WHOLE = 32,         /* counts only if it is the whole answer; `open` begins the first call or list */
    BLOCK_AT_START = 64,      /* only where the answer begins */
    BLOCK_AT_LINE = 128,      /* only where a line begins */
    BLOCK_TEXT = 256,         /* the markers are plain text: in a Markdown code fence they are quotations */
    BLOCK_CODE = 512,         /* all that follows is code for the tool "python" */
    BLOCK_SILENT = 1024,      /* the opening marker is dropped where no call follows */
    BLOCK_CALLS_START = 2048, /* a call form's `open` starts the block too */
};

/* Messages with headers: START header MESSAGE body END. The header names a channel and a recipient. */
struct reply_messages {
    const char *start, *channel, *message; /* channel NULL = headers have none */
    const char *ends[MAX_ENDS];
    const struct reply_block
        *block; /* a body for a tool is the arguments of a call; NULL = it holds the format's blocks */
};

struct reply_format {
    const char *name;
    const struct reply_thought *thoughts[MAX_THOUGHTS];
    const struct reply_block *blocks[MAX_BLOCKS];
    const char *drops[MAX_DROPS];       /* markers that are no content wherever they stand */
    const char *wrap_open, *wrap_close; /* around the whole answer */
    const char *drop_tag;               /* "co": <co...> and </co...> are dropped (citations) */
    const struct reply_messages *messages;
    const char *primer;            /* text that prompts end with and that the reply continues */
    const char *marks[MAX_MARKS];  /* the template holds all of these ... */
    const char *tokens[MAX_MARKS]; /* ... or the vocabulary all of these */
};

/* The table, ended by a row without a name. */
extern const struct reply_format reply_format_table[];

#endif
