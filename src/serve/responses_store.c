/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/responses_store.h"

#include <sqlite3.h>
#include <string.h>

static bool fail(struct responses_store *s, struct mx_error *err) {
    return error_set(err, ERROR_IO, "stored responses: %s",
                     s->database ? sqlite3_errmsg(s->database) : "out of memory");
}

bool responses_store_open(struct responses_store *s, const char *path, uint32_t max_entries, struct mx_error *err) {
    static const char schema[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "CREATE TABLE IF NOT EXISTS responses(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
        " owner INTEGER NOT NULL, history TEXT NOT NULL, input TEXT NOT NULL, response TEXT NOT NULL);";
    *s = (struct responses_store){.max_entries = max_entries, .is_open = true};
    pthread_mutex_init(&s->lock, NULL);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path ? path : ":memory:", &s->database, flags, NULL) != SQLITE_OK) return fail(s, err);
    sqlite3_busy_timeout(s->database, 2000);
    return sqlite3_exec(s->database, schema, NULL, NULL, NULL) == SQLITE_OK || fail(s, err);
}

void responses_store_close(struct responses_store *s) {
    if (!s->is_open) return;
    sqlite3_close(s->database);
    pthread_mutex_destroy(&s->lock);
    *s = (struct responses_store){0};
}

static bool bind_text(sqlite3_stmt *statement, int place, const char *text) {
    return sqlite3_bind_text(statement, place, text, -1, SQLITE_STATIC) == SQLITE_OK;
}

static bool insert(struct responses_store *s, const char *id, uint32_t owner, const char *const columns[3]) {
    sqlite3_stmt *statement = NULL;
    bool ok = sqlite3_prepare_v2(s->database,
                                 "INSERT INTO responses(id, owner, history, input, response) VALUES(?, ?, ?, ?, ?)", -1,
                                 &statement, NULL) == SQLITE_OK &&
              bind_text(statement, 1, id) && sqlite3_bind_int64(statement, 2, owner) == SQLITE_OK;
    for (int i = 0; ok && i < 3; i++) ok = bind_text(statement, i + 3, columns[i]);
    ok = ok && sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    return ok;
}

static bool trim(struct responses_store *s) {
    sqlite3_stmt *statement = NULL;
    bool ok =
        sqlite3_prepare_v2(s->database, "DELETE FROM responses WHERE number <= (SELECT max(number) FROM responses) - ?",
                           -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 1, s->max_entries) == SQLITE_OK && sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    return ok;
}

bool responses_store_put(struct responses_store *s, const char *id, uint32_t owner, const char *history,
                         const char *input, const char *response, struct mx_error *err) {
    pthread_mutex_lock(&s->lock);
    bool ok = insert(s, id, owner, (const char *const[]){history, input, response}) && trim(s);
    if (!ok) fail(s, err);
    pthread_mutex_unlock(&s->lock);
    return ok;
}

const char *responses_store_get(struct responses_store *s, const char *id, uint32_t owner, enum responses_column column,
                                struct arena *arena) {
    sqlite3_stmt *statement = NULL;
    const char *copy = NULL;
    pthread_mutex_lock(&s->lock);
    if (sqlite3_prepare_v2(s->database, "SELECT history, input, response FROM responses WHERE id = ? AND owner = ?", -1,
                           &statement, NULL) == SQLITE_OK &&
        bind_text(statement, 1, id) && sqlite3_bind_int64(statement, 2, owner) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, (int)column);
        if (text) copy = arena_copy(arena, text, strlen(text));
    }
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&s->lock);
    return copy;
}

bool responses_store_delete(struct responses_store *s, const char *id, uint32_t owner) {
    sqlite3_stmt *statement = NULL;
    pthread_mutex_lock(&s->lock);
    bool ok = sqlite3_prepare_v2(s->database, "DELETE FROM responses WHERE id = ? AND owner = ?", -1, &statement,
                                 NULL) == SQLITE_OK &&
              bind_text(statement, 1, id) && sqlite3_bind_int64(statement, 2, owner) == SQLITE_OK &&
              sqlite3_step(statement) == SQLITE_DONE && sqlite3_changes(s->database) > 0;
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&s->lock);
    return ok;
}
