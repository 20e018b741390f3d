"""Writes tests/fixtures/llava: a tiny random LLaVA-1.5 and what transformers makes of it.

Run from the repository's root, in an environment with torch and transformers:

    python tests/peers/make_llava_fixture.py

The folder is a Hugging Face folder in two shards (weights in float16, computed with in float32)
without a chat template. expected.npz holds, for each of PROMPTS with pictures 0, 1, ... in their
order, `ids/I` (each image its full number of tokens), `logits/I` and `greedy/I` (new tokens), and
`features` of the pictures, projected.
"""

import pathlib

import numpy as np
import torch
from make_clip_fixture import randomise
from pictures import pictures
from tokenizers import Tokenizer, decoders, models, processors
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
)

TARGET = pathlib.Path(__file__).parents[1] / "fixtures" / "llava"
PROMPTS = ["red: <image>blue: <image>green: ", "one <image>"]
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<image>"]
LETTERS = " abcdefghijklmnopqrstuvwxyzACEINRSTU.,:;'-\n"
IMAGE, NEW_TOKENS = 12, 6


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character, and a beginning of the text."""
    vocabulary = {token: i for i, token in enumerate([*SPECIALS, *LETTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    tokenizer.decoder = decoders.Fuse()
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **named, additional_special_tokens=["<image>"]
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlavaForConditionalGeneration:
    vision = CLIPVisionConfig(
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        num_hidden_layers=3,
        image_size=IMAGE,
        patch_size=4,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(IMAGE // 4) ** 2,
        attn_implementation="eager",
    )
    return LlavaForConditionalGeneration(config).eval()


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    randomise(model, seed=1)
    edges = {"size": {"shortest_edge": IMAGE}, "crop_size": {"height": IMAGE, "width": IMAGE}}
    processor = CLIPImageProcessorPil(**edges)
    pixels = processor(pictures(), return_tensors="pt")["pixel_values"]
    expected = {}
    with torch.no_grad():
        features = model.get_image_features(pixels).pooler_output
        expected["features"] = torch.stack(list(features)).numpy()
        for row, prompt in enumerate(PROMPTS):
            whole = prompt.replace("<image>", "<image>" * (IMAGE // 4) ** 2)
            inputs = {
                "input_ids": tokenizer(whole, return_tensors="pt")["input_ids"],
                "pixel_values": pixels[: prompt.count("<image>")],
            }
            output = model(**inputs)
            made = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
            length = inputs["input_ids"].shape[1]
            expected[f"ids/{row}"] = inputs["input_ids"][0].numpy().astype(np.int32)
            expected[f"logits/{row}"] = output.logits[0].numpy()
            expected[f"greedy/{row}"] = made[0, length:].numpy().astype(np.int32)
    np.savez_compressed(TARGET / "expected.npz", **expected)
    model.half().save_pretrained(TARGET, max_shard_size="24KB")
    processor.save_pretrained(TARGET)
    tokenizer.save_pretrained(TARGET)


if __name__ == "__main__":
    main()
