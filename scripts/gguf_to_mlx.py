#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a Llama GGUF file in Q4_1 (and Q8_0, F16, F32) into an MLX checkpoint folder, exactly.

    gguf_to_mlx.py MODEL.gguf OUT_DIR

Q4_1 is a block of 32 four-bit codes with a scale and a minimum: affine 4-bit, group 32. Q8_0 is a block of 32 signed bytes
with a scale: affine 8-bit, group 32, code + 128 and bias -128 * scale. Both give the same values to the bit. Norms stay f32.
Rows of q_proj and k_proj, which GGUF files keep in the order of interleaved rotation pairs, go back to halves. tokenizer.json,
tokenizer_config.json and config.json are made from the file's metadata. Needs numpy (Debian: python3-numpy).
"""
import json, os, struct, sys
import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


class Reader:
    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 0

    def take(self, fmt):
        value = struct.unpack_from("<" + fmt, self.data, self.at)[0]
        self.at += struct.calcsize("<" + fmt)
        return value

    def string(self):
        n = self.take("Q")
        text = bytes(self.data[self.at : self.at + n]).decode("utf-8")
        self.at += n
        return text

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            inner, n = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(n)]
        return self.take(SCALARS[kind])


def read_gguf(path):
    r = Reader(path)
    if bytes(r.data[:4]) != b"GGUF":
        sys.exit("gguf_to_mlx: %s is no GGUF file" % path)
    r.at = 8
    n_tensors, n_values = r.take("Q"), r.take("Q")
    meta = {}
    for _ in range(n_values):
        key = r.string()
        meta[key] = r.value(r.take("I"))
    tensors = {}
    for _ in range(n_tensors):
        name = r.string()
        shape = [r.take("Q") for _ in range(r.take("I"))][::-1]
        tensors[name] = (r.take("I"), shape, r.take("Q"))
    align = meta.get("general.alignment", 32)
    start = (r.at + align - 1) // align * align
    return meta, {n: (k, s, r.data[start + o :]) for n, (k, s, o) in tensors.items()}


def pack(codes, bits):
    """[rows, cols] codes to little-endian u32 words."""
    per = 32 // bits
    c = codes.astype(np.uint32).reshape(codes.shape[0], -1, per)
    shifts = (np.arange(per, dtype=np.uint32) * bits).astype(np.uint32)
    return np.bitwise_or.reduce(c << shifts, axis=2)


def affine(kind, shape, data):
    """(codes, scales, biases, bits) of a block-quantised tensor."""
    rows, cols = shape
    if kind == Q4_1:
        blocks = data[: rows * cols // 32 * 20].reshape(rows, cols // 32, 20)
        head = np.ascontiguousarray(blocks[:, :, :4]).view(np.float16)
        quants = blocks[:, :, 4:]
        codes = np.concatenate([quants & 15, quants >> 4], axis=2).reshape(rows, cols)
        return codes, head[:, :, 0], head[:, :, 1], 4
    blocks = data[: rows * cols // 32 * 34].reshape(rows, cols // 32, 34)
    scale = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)[:, :, 0]
    codes = (np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8).astype(np.int16) + 128).reshape(rows, cols)
    bias = scale.astype(np.float32) * -128
    if not (bias.astype(np.float16).astype(np.float32) == bias).all():
        return codes, scale.astype(np.float32), bias, 8
    return codes, scale, bias.astype(np.float16), 8


def unpermute(a, n_heads):
    """Rows of each head: interleaved pairs back to halves."""
    half = a.shape[0] // n_heads // 2
    return np.ascontiguousarray(a.reshape(n_heads, half, 2, -1).swapaxes(1, 2).reshape(a.shape))


NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}


def module_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return "model.layers.%s.%s" % (parts[1], NAMES[parts[2]])
    return {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[parts[0]]


def convert(meta, tensors):
    heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    out, overrides = {}, {}
    for name, (kind, shape, data) in tensors.items():
        module = module_name(name)
        permuted = heads if ".attn_q." in name else kv_heads if ".attn_k." in name else 0
        if kind in (Q4_1, Q8_0):
            codes, scales, biases, bits = affine(kind, shape, data)
            if permuted:
                codes, scales, biases = (unpermute(a, permuted) for a in (codes, scales, biases))
            out[module + ".weight"] = pack(codes, bits)
            out[module + ".scales"], out[module + ".biases"] = scales, biases
            if bits != 4:
                overrides[module] = {"group_size": 32, "bits": bits}
        elif kind in (F32, F16):
            dtype, n = (np.float32, 4) if kind == F32 else (np.float16, 2)
            a = data[: int(np.prod(shape)) * n].view(dtype).reshape(shape)
            out[module + ".weight"] = unpermute(a, permuted) if permuted else a
            if len(shape) == 2:
                overrides[module] = False
        else:
            sys.exit("gguf_to_mlx: tensor %s has GGUF type %d, which this script does not know" % (name, kind))
    return out, overrides


def write_safetensors(path, tensors):
    kinds = {"float32": "F32", "float16": "F16", "uint32": "U32"}
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": kinds[a.dtype.name], "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".partial", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())
    os.rename(path + ".partial", path)


def config(meta, overrides, has_head):
    quantization = {"group_size": 32, "bits": 4, "mode": "affine", **overrides}
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"], "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"], "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"], "rms_norm_eps": 1e-05,
        "rope_theta": meta["llama.rope.freq_base"], "max_position_embeddings": meta["llama.context_length"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]), "tie_word_embeddings": not has_head, "torch_dtype": "float16",
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"], "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "quantization": quantization, "quantization_config": quantization,
    }


def tokenizer(meta):
    if meta["tokenizer.ggml.model"] != "gpt2" or meta.get("tokenizer.ggml.pre") != "smollm":
        sys.exit("gguf_to_mlx: only the 'smollm' byte-level tokenizer is known")
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, (t, k) in enumerate(zip(tokens, kinds)) if k == 3]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": {**byte_level, "add_prefix_space": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": meta["tokenizer.ggml.merges"]},
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1].strip())
    meta, tensors = read_gguf(sys.argv[1])
    if meta.get("general.architecture") != "llama":
        sys.exit("gguf_to_mlx: architecture %r is not llama" % meta.get("general.architecture"))
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    out, overrides = convert(meta, tensors)
    write_safetensors(os.path.join(folder, "model.safetensors"), out)
    tokens = meta["tokenizer.ggml.tokens"]
    eos = tokens[meta["tokenizer.ggml.eos_token_id"]]
    files = {
        "config.json": config(meta, overrides, "output.weight" in tensors),
        "generation_config.json": {"eos_token_id": meta["tokenizer.ggml.eos_token_id"]},
        "tokenizer.json": tokenizer(meta),
        "tokenizer_config.json": {"bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]], "eos_token": eos,
                                  "chat_template": meta["tokenizer.chat_template"], "clean_up_tokenization_spaces": False,
                                  "add_bos_token": False, "tokenizer_class": "GPT2Tokenizer"},
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(content, f, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
