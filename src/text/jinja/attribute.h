/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, items and slices, with the rules of the sandbox: names that begin with an underscore and methods that
 * would change a container give an undefined value whose use is a SecurityError. */
#ifndef MLXCEL_TEXT_JINJA_ATTRIBUTE_H
#define MLXCEL_TEXT_JINJA_ATTRIBUTE_H

#include "text/jinja/call.h"

/* object.name: an attribute, else the item of that name, else undefined. */
bool jinja_getattr(struct jinja_run *run, struct jv object, const struct name *name, struct jv *result);
bool jinja_getattr_text(struct jinja_run *run, struct jv object, struct jinja_text *name, struct jv *result);
/* object[key]: an item, else the attribute of that name, else undefined. */
bool jinja_getitem(struct jinja_run *run, struct jv object, struct jv key, struct jv *result);
/* The item of a sequence, text, range or bytes at an index, which may count from the end; *found is false when there is
 * none. */
bool jinja_item_at(struct jinja_run *run, struct jv object, int64_t index, bool *found, struct jv *result);
/* True when the object has this attribute itself, whether safe or not. */
bool jinja_has_attribute(struct jinja_run *run, struct jv object, struct jinja_text *name);
/* object[start:stop:step], parts None where they are left out. */
bool jinja_getslice(struct jinja_run *run, struct jv object, struct jv start, struct jv stop, struct jv step,
                    struct jv *result);
/* The range of indices that a slice takes from n items; *step is not 0. */
bool jinja_slice_indices(struct jinja_run *run, struct jv start, struct jv stop, struct jv step, int64_t n,
                         int64_t *first, int64_t *end, int64_t *count, int64_t *stride);

#endif
