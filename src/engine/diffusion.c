/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding by blocks: a step reads a part of the text, or denoises the current block once.
 *
 * A canvas starts as random tokens. Each step guesses all of them; the guesses whose
 * entropies are smallest stay, the others become random again; the next step is conditioned on the expected embeddings
 * of the guesses. The best guess of the last step is the block's text, which is then read causally, as a prompt is.
 *
 * A masked block (LLaDA 2) starts as mask tokens; each step reveals the guesses that are probable enough, at least one,
 * and these stay. A finished block is read once more, its rows seeing one another; so are the prompt's whole blocks.
 *
 * What is drawn depends on the request's seed, the token's position and the step, and on nothing else. */
#include "engine/choice.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

struct diffusion {
    uint32_t capacity;              /* tokens that the arrays have room for */
    uint32_t n, n_known;            /* tokens of the block; of these, from the text before */
    uint32_t steps_left, max_steps; /* of the block; 0 left = no block is open */
    uint32_t *tokens, *best, *last; /* [n] the block, the best guess, that of the step before */
    bool *is_settled;               /* [n] revealed, or accepted in this step */
    double *entropy;                /* [n] */
    uint32_t *order;                /* [n] */
    uint32_t n_stable;              /* steps in a row with the same best guess */
    bool is_conditioned;
    float *conditions;         /* [n][hidden_size] */
    float *scaled;             /* [n][vocab_size] logits over the temperature */
    const float **probability; /* [n] rows of [vocab_size], in their own memory */
    float **condition_rows;    /* [n] */
    float *probabilities;
};

void diffusion_free(struct diffusion *d) {
    if (!d) return;
    free(d->tokens);
    free(d->best);
    free(d->last);
    free(d->is_settled);
    free(d->entropy);
    free(d->order);
    free(d->conditions);
    free(d->scaled);
    free(d->probability);
    free(d->condition_rows);
    free(d->probabilities);
    free(d);
}

static struct diffusion *create(const struct model *m) {
    struct diffusion *d = calloc(1, sizeof *d);
    size_t n = m->graph.diffusion.block_length, hidden = m->graph.hidden_size, cells;
    if (!d) return NULL;
    d->capacity = (uint32_t)n;
    bool ok = size_mul(n, m->graph.vocab_size, &cells);
    d->tokens = array_calloc(n, sizeof *d->tokens);
    d->best = array_calloc(n, sizeof *d->best);
    d->last = array_calloc(n, sizeof *d->last);
    d->is_settled = array_calloc(n, sizeof *d->is_settled);
    d->entropy = array_calloc(n, sizeof *d->entropy);
    d->order = array_calloc(n, sizeof *d->order);
    d->conditions = array_calloc(n * hidden, sizeof *d->conditions);
    d->scaled = ok ? array_calloc(cells, sizeof *d->scaled) : NULL;
    d->probability = array_calloc(n, sizeof *d->probability);
    d->condition_rows = array_calloc(n, sizeof *d->condition_rows);
    d->probabilities = ok ? array_calloc(cells, sizeof *d->probabilities) : NULL;
    ok = d->tokens && d->best && d->last && d->is_settled && d->entropy && d->order && d->conditions && d->scaled &&
         d->probability && d->condition_rows && d->probabilities;
    for (size_t i = 0; ok && i < n; i++) {
        d->probability[i] = d->probabilities + i * m->graph.vocab_size;
        d->condition_rows[i] = d->conditions + i * hidden;
    }
    if (ok) return d;
    diffusion_free(d);
    return NULL;
}

/* ---- statistics of the guesses: rows are dealt to the pool's threads ---- */

struct guessing {
    struct engine *engine;
    struct diffusion *d;
    float factor; /* 1 / temperature */
};

/* Ids that are no answer: a mask, padding of the logits. Finite, so that 0 times it is 0. */
static const float no_answer = -1e30f;

static void guess_row(const struct guessing *g, const struct kernels *k, uint32_t row) {
    const struct block_diffusion *model = &g->engine->model->graph.diffusion;
    struct diffusion *d = g->d;
    uint32_t vocab = g->engine->model->graph.vocab_size, n_tokens = g->engine->options.n_tokens, best = 0;
    float *scaled = d->scaled + (size_t)row * vocab, *p = d->probabilities + (size_t)row * vocab;
    k->scale(batch_logits(&g->engine->batch, row), g->factor, vocab, scaled);
    if (model->kind == DIFFUSION_MASK) scaled[model->mask_id] = no_answer;
    for (uint32_t v = n_tokens ? n_tokens : vocab; v < vocab; v++) scaled[v] = no_answer;
    for (uint32_t v = 1; v < vocab; v++)
        if (scaled[v] > scaled[best]) best = v;
    memcpy(p, scaled, vocab * sizeof *p);
    k->softmax(p, vocab);
    d->best[row] = best;
    /* H = log(sum of exp) - sum of p x, where exp(x_best) / sum = p_best */
    d->entropy[row] = (double)scaled[best] - log((double)p[best]) - (double)k->dot(p, scaled, vocab);
}

static void guess_job(void *context, int thread) {
    const struct guessing *g = context;
    const struct model *m = g->engine->model;
    const struct kernels *k = kernels_for_tier((enum kernel_tier)m->options.tier);
    uint32_t row;
    while (pool_take(m->pool, thread, (uint32_t)g->d->n, &row)) guess_row(g, k, row);
}

/* ---- drawing ---- */

/* A token for a place of the block, by the request's sampling; the best guess where its temperature is 0. */
static uint32_t draw(struct engine *e, struct choice *c, uint32_t place, uint32_t step) {
    struct diffusion *d = c->diffusion;
    struct sampler *s = &c->sampler;
    struct sample_result result;
    uint64_t seed = s->seed, n_generated = s->n_generated;
    if (c->shared->request.sampling.temperature <= 0) return d->best[place];
    s->n_generated = c->sequence.n_cells + place - c->n_prompt;
    s->seed = rng_at(seed, s->n_generated, step + 1);
    uint32_t token =
        sampler_sample(s, &e->scratch, d->scaled + (size_t)place * e->model->graph.vocab_size, NULL, &result);
    s->seed = seed;
    s->n_generated = n_generated;
    return result.status == SAMPLE_OK ? token : d->best[place];
}

static uint32_t random_token(const struct engine *e, const struct choice *c, uint32_t place, uint32_t step) {
    uint64_t word = rng_at(c->sampler.seed ^ RNG_GOLDEN, c->sequence.n_cells + place, step);
    uint32_t vocab = e->model->graph.vocab_size, n_tokens = e->options.n_tokens;
    return (uint32_t)(rng_uniform_f64(word) * (n_tokens && n_tokens < vocab ? n_tokens : vocab));
}

/* ---- blocks ---- */

static uint32_t canvas_length(const struct engine *e, const struct choice *c) {
    const struct diffusion_options *o = &e->options.diffusion;
    uint32_t block = e->model->graph.diffusion.block_length, left = (uint32_t)(c->room - c->n_tokens);
    uint32_t least = o->min_canvas ? o->min_canvas : 64, most = o->max_canvas ? o->max_canvas : block;
    if (most > block) most = block;
    uint32_t n = left > least ? left : least;
    return o->is_full_canvas ? block : n < most ? n : most;
}

static void open_block(struct engine *e, struct choice *c) {
    struct diffusion *d = c->diffusion;
    const struct block_diffusion *model = &e->model->graph.diffusion;
    const struct diffusion_options *o = &e->options.diffusion;
    d->max_steps = d->steps_left = o->max_steps ? o->max_steps : e->model->denoising.max_steps;
    d->n_known = (uint32_t)c->n_tokens - c->sequence.n_cells;
    d->n = model->kind == DIFFUSION_CANVAS ? canvas_length(e, c) : model->block_length;
    d->n_stable = 0;
    d->is_conditioned = false;
    for (uint32_t i = 0; i < d->n; i++) {
        d->is_settled[i] = i < d->n_known;
        d->last[i] = UINT32_MAX;
        if (d->is_settled[i])
            d->tokens[i] = c->tokens[c->sequence.n_cells + i];
        else
            d->tokens[i] = model->kind == DIFFUSION_CANVAS ? random_token(e, c, i, 0) : model->mask_id;
    }
}

/* Reveals what reaches the threshold, or the single best; the last step reveals everything. True when nothing is left. */
static bool reveal(struct engine *e, struct choice *c, double threshold, uint32_t step) {
    struct diffusion *d = c->diffusion;
    uint32_t best = UINT32_MAX, n_left = 0;
    double best_probability = -1;
    bool reveals_all = d->steps_left == 1, is_any = false;
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->is_settled[i]) continue;
        uint32_t token = draw(e, c, i, step);
        double p = (double)d->probability[i][token];
        d->order[i] = token;
        if (p > best_probability) best = i, best_probability = p;
        if (!reveals_all && p <= threshold) continue;
        d->tokens[i] = token;
        d->is_settled[i] = is_any = true;
    }
    if (!is_any && best != UINT32_MAX) {
        d->tokens[best] = d->order[best];
        d->is_settled[best] = true;
    }
    for (uint32_t i = 0; i < d->n; i++) n_left += !d->is_settled[i];
    return !n_left;
}

/* Accepts the tokens of least entropy, as long as those before them leave room below the bound; the rest is noise again. */
static void accept_by_entropy(struct engine *e, struct choice *c, uint32_t step) {
    struct diffusion *d = c->diffusion;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = i;
        for (; at > 0 && d->entropy[d->order[at - 1]] > d->entropy[i]; at--) d->order[at] = d->order[at - 1];
        d->order[at] = i;
    }
    double sum = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t place = d->order[i];
        bool is_accepted = sum <= e->model->denoising.entropy_bound;
        sum += d->entropy[place];
        d->tokens[place] = is_accepted ? draw(e, c, place, step) : random_token(e, c, place, step + 1);
    }
}

static bool is_ready(const struct engine *e, struct diffusion *d) {
    const struct denoising *o = &e->model->denoising;
    double sum = 0;
    bool is_same = !memcmp(d->best, d->last, d->n * sizeof *d->best);
    d->n_stable = is_same ? d->n_stable + 1 : 0;
    memcpy(d->last, d->best, d->n * sizeof *d->best);
    for (uint32_t i = 0; i < d->n; i++) sum += d->entropy[i];
    return o->stops_early && d->n_stable >= o->stability && sum / d->n < o->confidence;
}

/* After the forward pass of a canvas. True when the block is finished: its text is in tokens. */
static bool refine_canvas(struct engine *e, struct choice *c, uint32_t step) {
    struct diffusion *d = c->diffusion;
    const struct block_diffusion *model = &e->model->graph.diffusion;
    const struct diffusion_options *o = &e->options.diffusion;
    bool is_done = d->steps_left == 1 || is_ready(e, d);
    if (!is_done && o->by_confidence)
        is_done = reveal(e, c, o->threshold > 0 ? o->threshold : 0.9, step);
    else if (!is_done)
        accept_by_entropy(e, c, step);
    if (is_done) {
        memcpy(d->tokens, d->best, d->n * sizeof *d->tokens);
        return true;
    }
    /* What by confidence is not revealed becomes noise again, as by entropy. */
    for (uint32_t i = 0; o->by_confidence && i < d->n; i++)
        if (!d->is_settled[i]) d->tokens[i] = random_token(e, c, i, step + 1);
    e->model->backend->mix_table(e->model->compiled, model->embedding, d->probability, d->n, model->embedding_factor,
                                 d->condition_rows);
    d->is_conditioned = true;
    return false;
}

/* The finished block's new tokens go out one after the other, until one of them ends the answer. */
static void deliver_block(struct engine *e, struct choice *c) {
    struct diffusion *d = c->diffusion;
    d->steps_left = 0;
    for (uint32_t i = d->n_known; i < d->n; i++) {
        struct sample_result result = {.token = d->tokens[i], .status = SAMPLE_OK};
        if (!engine_take_token(e, c, &result)) return;
    }
}

static void denoise(struct engine *e, struct choice *c) {
    struct diffusion *d = c->diffusion;
    const struct denoising *o = &e->model->denoising;
    bool is_canvas = e->model->graph.diffusion.kind == DIFFUSION_CANVAS;
    if (!d->steps_left) open_block(e, c);
    uint32_t step = d->max_steps - d->steps_left;
    struct block_rows block = {
        .tokens = d->tokens, .n = d->n, .is_canvas = is_canvas, .conditions = d->is_conditioned ? d->conditions : NULL};
    if (!batch_add_block(&e->batch, &c->sequence, &block, (uint32_t)c->n_prompt, OUTPUT_ALL, NULL)) {
        engine_end_choice(e, c, choice_ending(FINISH_LENGTH));
        return;
    }
    if (!engine_run_batch(e)) return;
    double temperature = is_canvas ? o->t_min + (o->t_max - o->t_min) * d->steps_left / d->max_steps : 1;
    struct guessing guessing = {e, d, (float)(1 / (temperature > 1e-6 ? temperature : 1e-6))};
    pool_run(e->model->pool, guess_job, &guessing);
    double threshold = e->options.diffusion.threshold > 0 ? e->options.diffusion.threshold : 0.95;
    bool is_done = is_canvas ? refine_canvas(e, c, step) : reveal(e, c, threshold, step);
    if (is_done)
        deliver_block(e, c);
    else
        d->steps_left--;
}

/* Tokens of the text that are not in the cache yet: whole blocks where blocks see themselves, else any number. */
static uint32_t readable(const struct engine *e, const struct choice *c) {
    uint32_t left = (uint32_t)c->n_tokens - c->sequence.n_cells, block = e->model->graph.diffusion.block_length;
    if (e->model->graph.diffusion.kind == DIFFUSION_MASK) return left < block ? 0 : block;
    return left < e->model->options.max_rows ? left : e->model->options.max_rows;
}

static bool read_text(struct engine *e, struct choice *c, uint32_t n) {
    const uint32_t *tokens = c->tokens + c->sequence.n_cells;
    struct block_rows block = {.tokens = tokens, .n = n, .is_kept = true};
    if (e->model->graph.diffusion.kind == DIFFUSION_MASK)
        return batch_add_block(&e->batch, &c->sequence, &block, (uint32_t)c->n_prompt, OUTPUT_NONE, NULL);
    return batch_add(&e->batch, &c->sequence, tokens, n, (uint32_t)c->n_prompt, OUTPUT_NONE, NULL);
}

void diffusion_step(struct engine *e) {
    struct choice *c = e->admitted[0];
    if (!c->was_started) {
        c->was_started = true;
        choice_tell(c, (struct engine_event){.kind = EVENT_STARTED, .token = SAMPLE_NONE});
    }
    if (!c->diffusion && !(c->diffusion = create(e->model))) {
        engine_fail_choice(e, c, ERROR_MEMORY, "out of memory (the guesses of a block)");
        return;
    }
    uint32_t n = readable(e, c);
    if (!n) {
        denoise(e, c);
        return;
    }
    if (!read_text(e, c, n)) {
        engine_end_choice(e, c, choice_ending(FINISH_LENGTH));
        return;
    }
    if (engine_run_batch(e) && c->state == STATE_PREFILL)
        choice_tell(c, (struct engine_event){.kind = EVENT_PROMPT, .token = SAMPLE_NONE});
}
