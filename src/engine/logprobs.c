/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/logprobs.h"

#include <math.h>

static void report_top(struct candidates *c, double scale, struct logprobs_request *request) {
    double max = (double)c->max, log_total = log(c->total);
    request->n_reported = 0;
    if (!request->n_top) return;
    bool is_all = request->n_top < 0 || request->n_top >= (int64_t)c->n;
    candidates_keep_largest(c, is_all ? c->n : (uint32_t)request->n_top);
    candidates_sort(c);
    uint32_t n = is_all ? c->n : (uint32_t)request->n_top;
    for (uint32_t i = 0; i < c->n && i < n && c->x[i] > -INFINITY; i++)
        request->top[request->n_reported++] =
            (struct top_logprob){c->ids[i], (float)(((double)c->x[i] - max) * scale - log_total)};
}

static void report(struct candidates *c, uint32_t place, double scale, struct logprobs_request *request) {
    request->logprob = (float)(((double)c->x[place] - (double)c->max) * scale - log(c->total));
    report_top(c, scale, request);
}

void logprobs_of_row(struct candidates *c, float *row, struct logprobs_request *request) {
    candidates_begin(c, row);
    candidates_measure(c);
    candidates_weigh(c, 1);
    report(c, request->token, 1, request);
}

void logprobs_of_set(struct candidates *c, uint32_t place, double scale, struct logprobs_request *request) {
    if (scale > 0) {
        report(c, place, scale, request);
        return;
    }
    request->logprob = 0;
    request->n_reported = request->n_top != 0;
    request->top[0] = (struct top_logprob){request->token, 0};
}
