/* SPDX-License-Identifier: Apache-2.0 */
/* Text part of Llama 3.2 Vision: Llama's layers, and between them layers of cross-attention to an image. Without an image
 * those add nothing: they are bound, so that a file is checked and counted, and left out of the description. */
#include "models/family.h"
#include "models/stack.h"

static bool is_cross(struct builder *b, uint32_t layer) {
    const struct json *list = config_get(b->config, "cross_attention_layers");
    for (uint32_t i = 0; json_is_array(list) && i < list->count; i++)
        if (json_integer(&list->items[i], -1) == (int64_t)layer) return true;
    return false;
}

static void bind_cross_layer(struct builder *b, const struct stack *s) {
    const struct attention_spec *a = &s->attention;
    uint32_t width = s->d.hidden_size, q = a->n_heads * a->head_dim, kv = a->n_kv_heads * a->head_dim;
    uint32_t inner = s->mlp.intermediate_size;
    static const char *const vectors[] = {"input_layernorm.weight", "post_attention_layernorm.weight"};
    for (size_t i = 0; i < 2; i++) b_vector(b, vectors[i], width);
    b_vector(b, "cross_attn.q_norm.weight", a->head_dim);
    b_vector(b, "cross_attn.k_norm.weight", a->head_dim);
    b_vector(b, "cross_attn_attn_gate", 1);
    b_vector(b, "cross_attn_mlp_gate", 1);
    b_matrix(b, ROLE_ATTENTION, "cross_attn.q_proj", q, width);
    b_matrix(b, ROLE_ATTENTION, "cross_attn.k_proj", kv, width);
    b_matrix(b, ROLE_ATTENTION, "cross_attn.v_proj", kv, width);
    b_matrix(b, ROLE_ATTENTION, "cross_attn.o_proj", width, q);
    b_matrix(b, ROLE_MLP, "mlp.gate_proj", inner, width);
    b_matrix(b, ROLE_MLP, "mlp.up_proj", inner, width);
    b_matrix(b, ROLE_MLP, "mlp.down_proj", width, inner);
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    bool cross = is_cross(b, layer);
    if (cross) bind_cross_layer(b, s);
    s->has_no_attention = s->has_no_ffn = cross;
}

void build_mllama(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    s.d.n_embeddings = s.d.vocab_size + 8; /* the image token and its like */
    s.adjust = adjust;
    stack_build(b, &s);
}
