/* SPDX-License-Identifier: Apache-2.0 */
/* The build functions of the families, for the registry, and what families of one line share. */
#ifndef MLXCEL_MODELS_FAMILY_H
#define MLXCEL_MODELS_FAMILY_H

#include "models/common.h"

#include <string.h>

void build_llama(struct builder *b);
void build_mistral(struct builder *b);
void build_qwen2(struct builder *b);
void build_qwen3(struct builder *b);
void build_qwen3_moe(struct builder *b);
void build_mixtral(struct builder *b);
void build_gemma2(struct builder *b);
void build_gemma3(struct builder *b);
void build_lfm2(struct builder *b);
void build_lfm2_moe(struct builder *b);
void build_mamba(struct builder *b);
void build_falcon_mamba(struct builder *b);
void build_mamba2(struct builder *b);
void build_qwen3_next(struct builder *b);
void build_qwen3_5(struct builder *b);
void build_qwen2_moe(struct builder *b);
void build_qwen3_vl_moe(struct builder *b);
void build_olmoe(struct builder *b);
void build_flex_olmo(struct builder *b);
void build_granitemoe(struct builder *b);
void build_deepseek(struct builder *b);
void build_dots1(struct builder *b);
void build_glm4_moe(struct builder *b);
void build_solar_open(struct builder *b);
void build_minimax_m2(struct builder *b);
void build_exaone_moe(struct builder *b);
void build_ernie4_5_moe(struct builder *b);
void build_gemma3n(struct builder *b);
void build_diffusion_gemma(struct builder *b);
void build_llada2(struct builder *b);
void build_gemma4(struct builder *b);
void build_recurrent_gemma(struct builder *b);
void build_rwkv7(struct builder *b);
void build_plamo2(struct builder *b);
void build_olmo_hybrid(struct builder *b);
void build_bailing_linear(struct builder *b);
void build_minimax(struct builder *b);
void build_kimi_linear(struct builder *b);
void build_granite_hybrid(struct builder *b);
void build_bamba(struct builder *b);
void build_nemotron_h(struct builder *b);
void build_falcon_h1(struct builder *b);
void build_jamba(struct builder *b);

/* Mamba-2 mixers of hybrid models, under their usual keys (mamba_n_heads and the like), and the bounds of their time
 * step. */
struct mamba2_spec hybrid_mamba2(struct builder *b, const struct decoder *d);
/* Refuses another activation of the mixers, which the references take from the config. */
void mamba_require_silu(struct builder *b);
void read_time_step_limit(struct builder *b, struct mamba2_spec *spec);
/* Reads a rank that "auto" derives from the hidden size. */
uint32_t time_step_rank(struct builder *b, const char *key, uint32_t hidden_size);
void build_gpt_oss(struct builder *b);
void build_afmoe(struct builder *b);
void build_laguna(struct builder *b);
void build_mimo_v2_flash(struct builder *b);
void build_step3p5(struct builder *b);
void build_llama4(struct builder *b);
void build_hunyuan_moe(struct builder *b);
void build_hunyuan_v3(struct builder *b);
void build_phimoe(struct builder *b);
void build_phixtral(struct builder *b);
void build_dbrx(struct builder *b);
void build_cohere2_moe(struct builder *b);
void build_bailing_moe(struct builder *b);
void build_klear(struct builder *b);
void build_deepseek_v2(struct builder *b);
void build_deepseek_v3(struct builder *b);
void build_deepseek_v32(struct builder *b);
void build_glm_moe_dsa(struct builder *b);
void build_minimax_m3(struct builder *b);
void build_longcat_flash(struct builder *b);
void build_longcat_flash_ngram(struct builder *b);
void build_deepseek_v4(struct builder *b);
void build_glm4_moe_lite(struct builder *b);
void build_mistral4(struct builder *b);
void build_youtu(struct builder *b);
void build_minicpm3(struct builder *b);

void build_gemma(struct builder *b);
void build_ministral(struct builder *b);
void build_ministral3(struct builder *b);
void build_iquest_loop(struct builder *b);
void build_phi3small(struct builder *b);
void build_molmo(struct builder *b);
void build_molmo2(struct builder *b);
void build_moondream2(struct builder *b);
void build_mllama(struct builder *b);
void build_glm_ocr(struct builder *b);
void build_paddleocr_text(struct builder *b);
void build_mellum(struct builder *b);
void build_nanochat(struct builder *b);
void build_lille(struct builder *b);
void build_openelm(struct builder *b);
void build_plamo(struct builder *b);
void build_nemotron_nas(struct builder *b);
void build_afm7(struct builder *b);
void build_baichuan_m1(struct builder *b);
void build_cohere(struct builder *b);
void build_cohere2(struct builder *b);
void build_olmo(struct builder *b);
void build_olmo2(struct builder *b);
void build_olmo3(struct builder *b);
void build_granite(struct builder *b);
void build_granite_swa(struct builder *b);
void build_minicpm(struct builder *b);
void build_glm(struct builder *b);
void build_glm4(struct builder *b);
void build_exaone(struct builder *b);
void build_exaone4(struct builder *b);
void build_phi(struct builder *b);
void build_phi3(struct builder *b);
void build_gpt2(struct builder *b);
void build_gpt_bigcode(struct builder *b);
void build_gpt_neox(struct builder *b);
void build_gptj(struct builder *b);
void build_stablelm(struct builder *b);
void build_starcoder2(struct builder *b);
void build_nemotron(struct builder *b);
void build_internlm2(struct builder *b);
void build_internlm3(struct builder *b);
void build_qwen(struct builder *b);
void build_arcee(struct builder *b);
void build_helium(struct builder *b);
void build_ernie4_5(struct builder *b);
void build_smollm3(struct builder *b);
void build_seed_oss(struct builder *b);
void build_mimo(struct builder *b);
void build_hunyuan_v1_dense(struct builder *b);
void build_apertus(struct builder *b);
void build_bitnet(struct builder *b);

/* Qwen's experts: which layers have them, and their router and layouts. */
bool qwen_layer_is_sparse(struct builder *b, uint32_t layer);
struct moe_spec qwen_experts(struct builder *b, const struct decoder *d, bool normalize_by_default);

#endif
