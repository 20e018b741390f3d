"""GGUF files: the same parameters, config and words as from where they were made."""

import dataclasses

import numpy as np
import pytest
from models.lm.tiny_lm import write_tokenizer
from peers import lm_folders

from mmgen.core.digest import named_leaves
from mmgen.core.mesh import make_mesh
from mmgen.errors import UserError
from mmgen.models.lm.config import from_hugging_face
from mmgen.models.lm.gguf_file import open_gguf
from mmgen.models.lm.gguf_tokenizer import tokenizer_from_gguf
from mmgen.models.lm.model import open_model
from mmgen.models.lm.tensors import open_safetensors
from mmgen.models.lm.weights import load_params

gguf = pytest.importorskip("gguf", reason="needs the package gguf")

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""As llama.cpp's convert_hf_to_gguf.py renames."""


WIDE = {"hidden_size": 32, "intermediate_size": 64}
"""Rows of whole blocks of 32 weights."""

CONFIGS = {
    "llama": lm_folders.config_of("llama") | WIDE,
    "tied": lm_folders.config_of("llama") | WIDE | {"tie_word_embeddings": True},
    "qwen2": lm_folders.config_of("qwen2") | WIDE | {"use_sliding_window": False},
}


def renamed(name):
    stem, ending = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{NAMES[part]}.{ending}"
    return f"{NAMES[stem]}.{ending}"


def write_gguf(path, config, kind=gguf.GGMLQuantizationType.F32, divisors=None):
    """As llama.cpp's converter does, matrices quantised as `kind`."""
    family = config["model_type"]
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(lm_folders.LAYERS)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(lm_folders.HEADS)
    writer.add_head_count_kv(lm_folders.GROUPS)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config.get("rope_theta", 1e4))
    add_words(writer)
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(divisors, np.float32))
    for name, values in lm_folders.tensors_of(config).items():
        heads = {"q_proj": lm_folders.HEADS, "k_proj": lm_folders.GROUPS}.get(name.split(".")[-2])
        if family == "llama" and heads:
            shape = values.shape
            values = values.reshape(heads, 2, -1, *shape[1:]).swapaxes(1, 2).reshape(shape)
        own = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quantize(np.ascontiguousarray(values), own)
        writer.add_tensor(renamed(name), data, raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_words(writer):
    tokens = ["<|end|>", "<|start|>", *"abcdehlo1", "Ġ", "he", "hel"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(["h e", "he l"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{% for m in messages %}<|start|>{{ m['content'] }}{% endfor %}")


def params_of(tensors, config):
    return named_leaves(load_params(tensors, config, make_mesh(data=1)))


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_and_config_are_those_of_the_folder(name, tmp_path):
    values = CONFIGS[name]
    opened = open_gguf(write_gguf(tmp_path / "m.gguf", values))
    config = from_hugging_face(values)
    # Two facts lie in the file as float32, two describe its own tokenizer.
    own = dataclasses.replace(
        opened.config,
        angles=config.angles,
        norm_eps=config.norm_eps,
        bos=config.bos,
        eos=config.eos,
    )
    assert own == config
    np.testing.assert_allclose(opened.config.angles, config.angles, rtol=1e-6)
    assert (opened.config.bos, opened.config.eos) == (1, (0,))
    folder = lm_folders.write_folder(tmp_path / "folder", values)
    ours = params_of(opened.tensors, opened.config)
    for path, leaf in params_of(open_safetensors(folder), config).items():
        np.testing.assert_array_equal(ours[path], leaf, err_msg=path)


@pytest.mark.parametrize(("kind", "within"), [("F16", 1e-3), ("BF16", 2e-3), ("Q8_0", 3e-3)])
def test_quantised_matrices_come_back(kind, within, tmp_path):
    file = write_gguf(tmp_path / "m.gguf", CONFIGS["llama"], gguf.GGMLQuantizationType[kind])
    opened = open_gguf(file)
    name = "model.layers.1.self_attn.k_proj.weight"
    part = opened.tensors.read(name, (slice(2, 7), slice(None)))
    np.testing.assert_allclose(
        part, lm_folders.tensors_of(CONFIGS["llama"])[name][2:7], atol=within
    )


def test_rope_factors_divide_the_frequencies(tmp_path):
    config = CONFIGS["llama"]
    half = from_hugging_face(config).head_dim // 2
    file = write_gguf(tmp_path / "m.gguf", config, divisors=np.arange(1, half + 1))
    wanted = np.array(from_hugging_face(config).angles) / np.arange(1, half + 1)
    np.testing.assert_allclose(open_gguf(file).config.angles, wanted, rtol=1e-6)


def test_words_come_from_the_metadata(tmp_path):
    model = open_model(write_gguf(tmp_path / "m.gguf", CONFIGS["llama"]), make_mesh(data=1))
    words = model.tokenizer
    assert words.render([{"role": "user", "content": "hello"}]) == "<|start|>hello"
    ids = words.encode("<|start|>hello 11", rendered=True)
    # Digits are single, merges are applied, the special token is one.
    assert ids == [1, 13, 8, 9, 11, 10, 10]
    assert words.decode(ids) == "hello 11"


def test_a_tokenizer_beside_the_file_comes_first(tmp_path):
    write_tokenizer(tmp_path)
    model = open_model(write_gguf(tmp_path / "m.gguf", CONFIGS["llama"]), make_mesh(data=1))
    assert model.tokenizer.where == str(tmp_path)


@pytest.mark.parametrize(
    ("facts", "saying"),
    [
        ({"tokenizer.ggml.model": "llama"}, "'llama'/None, .* tokenizer.json"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "odd"}, "'gpt2'/'odd'"),
    ],
)
def test_words_that_cannot_be_rebuilt_are_refused(facts, saying):
    with pytest.raises(UserError, match=saying):
        tokenizer_from_gguf(facts.get, "m.gguf")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    file = write_gguf(tmp_path / "m.gguf", CONFIGS["llama"])
    whole = file.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "junk.gguf").write_bytes(b"junk")
    for name in ("cut.gguf", "junk.gguf"):
        with pytest.raises(UserError, match=f"{name} is not a whole GGUF file"):
            open_gguf(tmp_path / name)
    with pytest.raises(UserError, match="is missing"):
        open_gguf(tmp_path / "none.gguf")
    other = {**CONFIGS["llama"], "model_type": "gemma"}
    with pytest.raises(UserError, match="architecture 'gemma'"):
        open_gguf(write_gguf(tmp_path / "other.gguf", other))
