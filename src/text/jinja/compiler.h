/* SPDX-License-Identifier: Apache-2.0 */
/* From text to an annotated tree: lexer.c cuts it into tokens, parser.c and parser_expression.c build the tree,
 * fold.c computes constant expressions, resolve.c decides what every name refers to. */
#ifndef MLXCEL_TEXT_JINJA_COMPILER_H
#define MLXCEL_TEXT_JINJA_COMPILER_H

#include "base/map.h"
#include "text/jinja/node.h"
#include "text/jinja/run.h"

/* Nesting of tags, brackets and operators in a template. */
#define JINJA_MAX_TREE 300

enum token_kind {
    TOKEN_EOF,
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MUL,
    TOKEN_MOD,
    TOKEN_POW,
    TOKEN_TILDE,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
};

struct token {
    uint8_t kind; /* enum token_kind */
    uint32_t line;
    uint32_t length;
    const char *text; /* data and strings decoded */
};

struct compiler {
    struct jinja_run run; /* memory, failure and evaluation of constants */
    struct jinja_template *template;
    struct token *tokens;
    size_t n_tokens, token_capacity, at;
    int depth;
    struct map names; /* text → index in name_list */
    struct name **name_list;
    size_t n_names, name_capacity;
    /* resolve.c */
    bool autoescape, is_volatile;
    uint64_t work; /* bounds the time that a hostile template takes */
};

/* Sets a syntax error at a line; returns false. */
bool jinja_syntax_error(struct compiler *c, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Zeroed memory of the template; NULL with the failure set. */
void *jinja_compiler_alloc(struct compiler *c, size_t n, size_t size);
const struct name *jinja_intern(struct compiler *c, const char *text, size_t length);
struct node *jinja_new_node(struct compiler *c, enum node_kind kind, uint32_t line);
static inline void jinja_nodes_add(struct nodes *list, struct node *node) {
    if (list->last)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
    list->n++;
}

bool jinja_lex(struct compiler *c, const char *text, size_t length);
bool jinja_parse(struct compiler *c, struct nodes *body);
bool jinja_resolve(struct compiler *c);
/* Replaces the constant parts of an expression by their values. */
bool jinja_fold(struct compiler *c, struct node *node);
/* What is printed is text already where it is constant, even if the value has no literal form: an undefined one. */
void jinja_fold_output(struct compiler *c, struct node *node);

/* ---- between the two halves of the parser ---- */

static inline const struct token *jinja_token(const struct compiler *c) { return &c->tokens[c->at]; }
bool jinja_token_is(const struct compiler *c, enum token_kind kind);
bool jinja_token_is_name(const struct compiler *c, const char *name);
bool jinja_skip(struct compiler *c, enum token_kind kind);
bool jinja_skip_name(struct compiler *c, const char *name);
bool jinja_expect(struct compiler *c, enum token_kind kind);
bool jinja_expect_name(struct compiler *c, const char *name);
/* "got" part of messages. */
const char *jinja_describe(const struct token *token, char room[80]);
bool jinja_enter(struct compiler *c); /* one level deeper; the caller restores c->depth */

/* Each returns NULL with the failure set. */
struct node *jinja_parse_expression(struct compiler *c);
/* Expressions separated by commas; a tuple where there is a comma. */
enum tuple_mode {
    TUPLE_PLAIN = 0,
    TUPLE_NO_CONDITIONAL = 1,
    TUPLE_PRIMARY = 2, /* names and literals only: a target */
    TUPLE_PARENTHESES = 4,
    TUPLE_NAMESPACE = 8, /* name.attribute is allowed */
};
struct node *jinja_parse_tuple(struct compiler *c, unsigned mode, const char *end_name);
struct node *jinja_parse_target(struct compiler *c, unsigned mode, const char *end_name);
const struct name *jinja_parse_name(struct compiler *c);       /* any name token */
const struct name *jinja_parse_store_name(struct compiler *c); /* one that can be assigned to */
struct node *jinja_parse_filters(struct compiler *c, struct node *target, bool starts_inline);

#endif
