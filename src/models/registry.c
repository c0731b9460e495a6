/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families, and the way from a config to a graph. */
#include "models/models.h"

#include "models/family.h"

#include <ctype.h>
#include <stdio.h>

const struct family families[] = {
    /* name         model_type values                    build              made of */
    {"Llama", "llama iquestcoder telechat3 bunny-llama", build_llama, "attention, gated MLP"},
    {"Mistral", "mistral", build_mistral, "attention (windows), gated MLP"},
    {"Mixtral", "mixtral", build_mixtral, "attention, experts"},
    {"Qwen 2", "qwen2 dots_ocr llava_qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", build_qwen2,
     "attention (biases), gated MLP"},
    {"Qwen 3", "qwen3 qwen3_vl qwen3_vl_text", build_qwen3, "attention (q/k norms), gated MLP"},
    {"Qwen 3 MoE", "qwen3_moe qwen3_omni_moe qwen3_omni_moe_text", build_qwen3_moe, "attention (q/k norms), experts"},
    {"Qwen3-Next", "qwen3_next", build_qwen3_next, "gated delta net, gated attention, experts"},
    {"Qwen 3.5", "qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text", build_qwen3_5,
     "gated delta net, gated attention, gated MLP or experts"},
    {"Gemma 2", "gemma2", build_gemma2, "attention (softcap, windows), gated MLP"},
    {"Gemma 3", "gemma3 gemma3_text", build_gemma3, "attention (q/k norms, windows), gated MLP"},
    {"Mamba 2", "mamba2", build_mamba2, "Mamba-2"},
    {"Qwen 2 MoE", "qwen2_moe", build_qwen2_moe, "attention (biases), experts, gated shared expert"},
    {"Qwen3-VL MoE (text)", "qwen3_vl_moe qwen3_vl_moe_text", build_qwen3_vl_moe, "attention (q/k norms), experts"},
    {"OLMoE", "olmoe", build_olmoe, "attention (q/k norms over all heads), experts"},
    {"FlexOlmo", "flex_olmo", build_flex_olmo, "attention (q/k norms over all heads), experts, post-norms"},
    {"Granite 3 MoE", "granitemoe granitemoeshared", build_granitemoe, "attention, experts, multipliers"},
    {"DeepSeek", "deepseek", build_deepseek, "attention, experts, shared experts"},
    {"dots.llm1", "dots1", build_dots1, "attention (q/k norms), experts, shared experts"},
    {"GLM 4 MoE", "glm4_moe glm4v_moe glm4v_moe_text", build_glm4_moe,
     "attention (q/k norms), experts, shared experts"},
    {"Solar Open", "solar_open", build_solar_open, "attention, experts, shared experts"},
    {"MiniMax M2", "minimax_m2", build_minimax_m2, "attention (q/k norms over all heads), experts"},
    {"EXAONE MoE", "exaone_moe", build_exaone_moe, "attention (q/k norms, windows), experts, shared expert"},
    {"ERNIE 4.5 MoE", "ernie4_5_moe", build_ernie4_5_moe, "attention, experts, shared experts"},
    {"Mamba", "mamba", build_mamba, "Mamba-1"},
    {"Falcon Mamba", "falcon_mamba", build_falcon_mamba, "Mamba-1 (normed time step, B, C)"},
    {"LFM 2", "lfm2 lfm2-vl lfm2_vl", build_lfm2, "short convolution, attention, gated MLP"},
    {"LFM 2 MoE", "lfm2_moe", build_lfm2_moe, "short convolution, attention, gated MLP or experts"},
    {"Granite 4 H", "granitemoehybrid", build_granite_hybrid, "Mamba-2, attention, experts, shared MLP"},
    {"Bamba", "bamba", build_bamba, "Mamba-2, attention, gated MLP"},
    {"Nemotron-H", "nemotron_h", build_nemotron_h, "Mamba-2, attention, MLP without gate, experts"},
    {"Falcon H1", "falcon_h1", build_falcon_h1, "attention beside Mamba-2, gated MLP"},
    {"Gemma 3n", "gemma3n gemma3n_text", build_gemma3n, "attention (windows, shared caches), AltUp, LAuReL, gated MLP"},
    {"Gemma 4", "gemma4 gemma4_text gemma4_unified gemma4_unified_text", build_gemma4,
     "attention (windows, shared caches), gated MLP, experts"},
    {"RecurrentGemma", "recurrent_gemma", build_recurrent_gemma,
     "gated linear recurrence, attention (windows), gated MLP"},
    {"RWKV-7", "rwkv7", build_rwkv7, "diagonal plus rank-one recurrence"},
    {"PLaMo 2", "plamo2", build_plamo2, "Mamba (normed bottleneck), attention, gated MLP"},
    {"OLMo Hybrid", "olmo_hybrid", build_olmo_hybrid, "gated delta net, attention, gated MLP"},
    {"Ring, Ling linear", "bailing_moe_linear", build_bailing_linear, "linear attention, attention, experts"},
    {"MiniMax M1", "minimax minimax_m1 minimax_text_01", build_minimax, "linear attention, attention, experts"},
    {"Kimi Linear", "kimi_linear", build_kimi_linear, "channel-wise delta net, latent attention, experts"},
    {"DiffusionGemma", "diffusion_gemma diffusion_gemma_text", build_diffusion_gemma,
     "attention (windows), experts, block diffusion"},
    {"LLaDA 2", "llada2_moe", build_llada2, "attention (q/k norms), experts, block diffusion"},
    {"Jamba", "jamba", build_jamba, "Mamba-1, attention, gated MLP or experts"},
    {"gpt-oss", "gpt_oss", build_gpt_oss, "attention (sinks, windows), experts"},
    {"Trinity", "afmoe", build_afmoe, "gated attention (windows), experts, shared experts"},
    {"Laguna", "laguna", build_laguna, "gated attention (windows), experts, shared expert"},
    {"MiMo V2 Flash", "mimo_v2_flash", build_mimo_v2_flash, "attention (windows with sinks), experts"},
    {"Step 3.5", "step3p5", build_step3p5, "gated attention (windows), experts, shared expert"},
    {"Llama 4", "llama4 llama4_text", build_llama4, "attention (chunks), experts, shared expert"},
    {"Hunyuan MoE", "hunyuan hunyuan_v1_moe", build_hunyuan_moe, "attention (shared keys), experts, shared MLP"},
    {"Hunyuan 3", "hy_v3", build_hunyuan_v3, "attention (q/k norms), experts, shared experts"},
    {"Phi-3.5-MoE", "phimoe", build_phimoe, "attention (biases), experts (sparsemixer), LayerNorm"},
    {"Phixtral", "phi-msft", build_phixtral, "attention beside experts, LayerNorm"},
    {"DBRX", "dbrx", build_dbrx, "attention (clipped), experts, LayerNorm"},
    {"Command A MoE", "cohere2_moe", build_cohere2_moe, "attention beside experts (windows), LayerNorm"},
    {"Ling", "bailing_moe", build_bailing_moe, "attention, experts (groups), shared experts"},
    {"Klear", "klear", build_klear, "attention (q/k norms), experts mixed with shared experts"},
    {"DeepSeek V2", "deepseek_v2", build_deepseek_v2, "latent attention, experts (groups), shared experts"},
    {"DeepSeek V3", "deepseek_v3 kimi_k2 kimi_vl kimi_k25 joyai_llm_flash", build_deepseek_v3,
     "latent attention, experts (groups), shared experts"},
    {"DeepSeek V3.2", "deepseek_v32", build_deepseek_v32, "latent attention (sparse by an index), experts (groups)"},
    {"GLM 5", "glm_moe_dsa", build_glm_moe_dsa, "latent attention (sparse by an index), experts, shared experts"},
    {"MiniMax M3 (text)", "minimax_m3_vl minimax_m3_vl_text", build_minimax_m3,
     "attention (sparse blocks by an index), experts, shared expert"},
    {"LongCat Flash", "longcat_flash", build_longcat_flash, "latent attention twice a layer, experts (identities)"},
    {"LongCat Flash n-gram", "longcat_flash_ngram", build_longcat_flash_ngram,
     "n-gram embeddings, latent attention twice a layer, experts (identities)"},
    {"DeepSeek V4", "deepseek_v4", build_deepseek_v4,
     "attention over a window and compressed runs, hyper-connections, experts"},
    {"GLM 4.7 Flash", "glm4_moe_lite", build_glm4_moe_lite, "latent attention, experts, shared experts"},
    {"Mistral 4", "mistral4", build_mistral4, "latent attention, experts, shared experts"},
    {"Youtu", "youtu youtu_llm youtu_vl", build_youtu, "latent attention, gated MLP"},
    {"MiniCPM3", "minicpm3", build_minicpm3, "latent attention, gated MLP, multipliers"},
    {"Gemma", "gemma", build_gemma, "attention, gated MLP"},
    {"Ministral", "ministral", build_ministral, "attention (windows), gated MLP"},
    {"Ministral 3", "ministral3", build_ministral3, "attention (queries scaled by position), gated MLP"},
    {"IQuest Loop", "iquestloopcoder", build_iquest_loop, "attention (mixed over two passes), gated MLP"},
    {"Phi 3 small", "phi3small", build_phi3small, "attention (block-sparse), gated MLP, LayerNorm, multipliers"},
    {"GLM-OCR (text)", "glm_ocr glm_ocr_text", build_glm_ocr, "attention, gated MLP, four norms"},
    {"PaddleOCR-VL (text)", "paddleocr_vl paddleocr_vl_text", build_paddleocr_text, "attention, gated MLP"},
    {"Molmo (text)", "molmo", build_molmo, "attention (fused, biases), gated MLP"},
    {"Molmo 2 (text)", "molmo2 molmo2_text", build_molmo2, "attention (fused, q/k norms), gated MLP"},
    {"Moondream 2 (text)", "moondream2", build_moondream2, "parallel attention (partial rope) and MLP, LayerNorm"},
    {"Llama 3.2 Vision (text)", "mllama mllama_text_model", build_mllama, "attention, gated MLP; cross layers unused"},
    {"Mellum", "mellum", build_mellum, "attention (q/k norms, windows), experts"},
    {"nanochat", "nanochat", build_nanochat, "attention (q/k norms after rope), MLP, plain norms"},
    {"Lille", "lille-130m", build_lille, "attention (fused), gated MLP"},
    {"OpenELM", "openelm", build_openelm, "attention and gated MLP of sizes by layer"},
    {"PLaMo", "plamo", build_plamo, "parallel attention and gated MLP"},
    {"Nemotron-NAS", "nemotron-nas", build_nemotron_nas, "attention, gated MLP, linear maps, by layer"},
    {"AFM 7", "afm7", build_afm7, "attention (shared caches), gated MLP"},
    {"Baichuan-M1", "baichuan_m1", build_baichuan_m1, "attention (filtered keys and values, windows), gated MLP"},
    {"Cohere", "cohere", build_cohere, "parallel attention and gated MLP, LayerNorm"},
    {"Cohere 2", "cohere2", build_cohere2, "parallel attention (windows) and gated MLP, LayerNorm"},
    {"OLMo", "olmo", build_olmo, "attention, gated MLP, plain LayerNorm"},
    {"OLMo 2", "olmo2", build_olmo2, "attention (q/k norms), gated MLP, norms after both"},
    {"OLMo 3", "olmo3", build_olmo3, "attention (q/k norms, windows), gated MLP, norms after both"},
    {"Granite", "granite", build_granite, "attention, gated MLP, multipliers"},
    {"Granite SWA", "granite_swa", build_granite_swa, "attention (windows, sinks), gated MLP, multipliers"},
    {"MiniCPM", "minicpm", build_minicpm, "attention, gated MLP, multipliers"},
    {"GLM 4", "glm", build_glm, "attention (biases, half rope), gated MLP"},
    {"GLM 4 0414", "glm4 glm4v glm4v_text", build_glm4, "attention (biases, half rope), gated MLP, four norms"},
    {"EXAONE", "exaone", build_exaone, "attention, gated MLP"},
    {"EXAONE 4", "exaone4", build_exaone4, "attention (q/k norms, windows), gated MLP, norms after both"},
    {"Phi", "phi", build_phi, "parallel attention (partial rope) and MLP, LayerNorm"},
    {"Phi 3", "phi3 phi3_v", build_phi3, "attention (fused, longrope), gated MLP"},
    {"GPT-2", "gpt2", build_gpt2, "attention, MLP, LayerNorm, learned positions"},
    {"GPT-BigCode", "gpt_bigcode", build_gpt_bigcode, "attention (one key head), MLP, LayerNorm, learned positions"},
    {"GPT-NeoX", "gpt_neox", build_gpt_neox, "parallel attention (partial rope) and MLP, LayerNorm"},
    {"GPT-J", "gptj", build_gptj, "parallel attention (partial interleaved rope) and MLP, LayerNorm"},
    {"StableLM", "stablelm", build_stablelm, "attention (partial rope), gated MLP, LayerNorm"},
    {"StarCoder 2", "starcoder2", build_starcoder2, "attention (windows), MLP, LayerNorm"},
    {"Nemotron", "nemotron", build_nemotron, "attention (partial rope), MLP, LayerNorm"},
    {"InternLM 2", "internlm2", build_internlm2, "attention (fused), gated MLP"},
    {"InternLM 3", "internlm3", build_internlm3, "attention, gated MLP"},
    {"Qwen", "qwen", build_qwen, "attention (fused, biases), gated MLP"},
    {"Arcee", "arcee", build_arcee, "attention, MLP"},
    {"Helium", "helium", build_helium, "attention (interleaved rope), gated MLP"},
    {"ERNIE 4.5", "ernie4_5", build_ernie4_5, "attention (interleaved rope), gated MLP"},
    {"SmolLM 3", "smollm3", build_smollm3, "attention (layers without rope), gated MLP"},
    {"Seed-OSS", "seed_oss", build_seed_oss, "attention (biases), gated MLP"},
    {"MiMo", "mimo", build_mimo, "attention (biases), gated MLP"},
    {"Hunyuan dense", "hunyuan_v1_dense", build_hunyuan_v1_dense, "attention (q/k norms after rope), gated MLP"},
    {"Apertus", "apertus", build_apertus, "attention (q/k norms), MLP (xIELU)"},
    {"BitNet", "bitnet", build_bitnet, "attention and gated MLP with inner norms"},
    {NULL, NULL, NULL, NULL},
};

/* model_type is compared in lower case. */
static bool names_type(const char *list, const char *type) {
    size_t n = strlen(type);
    for (const char *at = list; *at; at += *at == ' ') {
        size_t length = strcspn(at, " "), i = 0;
        while (i < n && i < length && tolower((unsigned char)type[i]) == at[i]) i++;
        if (i == n && i == length) return true;
        at += length;
    }
    return false;
}

static const struct family *find_family(const char *type) {
    for (const struct family *f = families; type && f->name; f++)
        if (names_type(f->model_types, type)) return f;
    return NULL;
}

/* By the top-level model_type, else by that of the text part. */
static const struct family *choose_family(struct config *c, struct mx_error *err) {
    char *type = json_string_copy(&c->arena, json_get(c->root, "model_type"));
    const struct family *family = find_family(type);
    if (!family && c->text != c->root)
        family = find_family(json_string_copy(&c->arena, json_get(c->text, "model_type")));
    if (family) return family;
    if (!type)
        error_set(err, ERROR_FORMAT, "%s: has no 'model_type'", c->path);
    else
        error_set(err, ERROR_UNSUPPORTED, "%s: model_type '%s' is not supported (see mlxcel arch)", c->path, type);
    return NULL;
}

static bool build(struct graph *graph, struct config *config, const struct family *family, struct mx_error *err) {
    struct builder b;
    builder_init(&b, graph, config, err);
    graph->context_length = config_size_or(config, "max_position_embeddings", 4096);
    family->build(&b);
    /* A wrong config value is the cause of whatever failed after it. */
    if (config->error.code) {
        *err = config->error;
        b.failed = true;
    }
    if (!b.failed && config_refuse_unread(config, err)) return true;
    graph_free(graph);
    return false;
}

/* Refuses a quantisation that is not read, with the model's size. */
static bool refuse_foreign(struct graph *graph, struct config *config, const struct family *family,
                           const struct checkpoint *checkpoint, struct mx_error *err) {
    char size[80] = "";
    graph->weights.checkpoint = NULL;
    if (!build(graph, config, family, err)) return false;
    uint64_t n = 0;
    for (size_t i = 0; i < graph->weights.n; i++) {
        const struct weight *w = graph->weights.list[i];
        if (!w->is_repeat) n += (uint64_t)w->n_rows * w->n_cols * (w->n_experts ? w->n_experts : 1);
    }
    double bytes = (double)n * graph->weights.foreign_bits / 8;
    if (checkpoint)
        snprintf(size, sizeof size, ", %.2f GiB in its files", (double)checkpoint_bytes(checkpoint) / 0x1p30);
    else if (bytes > 0)
        snprintf(size, sizeof size, ", about %.2f GiB at %u bits", bytes / 0x1p30, graph->weights.foreign_bits);
    error_set(err, ERROR_UNSUPPORTED, "%s: quantization method '%s' is not supported (%.3f billion parameters%s)",
              config->path, graph->weights.foreign_method, (double)n / 1e9, size);
    graph_free(graph);
    return false;
}

bool model_build(struct graph *graph, struct config *config, const struct checkpoint *checkpoint,
                 struct mx_error *err) {
    *graph = (struct graph){0};
    const struct family *family = choose_family(config, err);
    if (!family || !weights_init(&graph->weights, checkpoint, config, err)) return false;
    if (graph->weights.foreign_method) return refuse_foreign(graph, config, family, checkpoint, err);
    return build(graph, config, family, err);
}

bool model_build_as(struct graph *graph, struct config *config, const struct quantization *quantization,
                    enum dtype plain_dtype, struct mx_error *err) {
    *graph = (struct graph){0};
    const struct family *family = choose_family(config, err);
    if (!family || !weights_init(&graph->weights, NULL, config, err)) return false;
    if (quantization) {
        graph->weights.quantization = *quantization;
        graph->weights.is_ternary = false;
        graph->weights.plain_dtype = plain_dtype;
    }
    return build(graph, config, family, err);
}
