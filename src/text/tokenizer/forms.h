/* SPDX-License-Identifier: Apache-2.0 */
/* The normalization forms NFC, NFD, NFKC and NFKD, as of Unicode 9, with the origins of characters kept. */
#ifndef MLXCEL_TEXT_FORMS_H
#define MLXCEL_TEXT_FORMS_H

#include "text/tokenizer/aligned.h"

enum form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

/* True when the text is in that form for certain; a false answer says nothing. */
bool form_is_certain(enum form form, const char *text, size_t length);
/* Rewrites the whole of from into to. False when memory is out. */
bool form_apply(enum form form, struct aligned *to, const struct aligned *from, struct origin before);

#endif
