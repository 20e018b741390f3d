"""Writes tests/fixtures/clip: a tiny CLIP with random weights and what transformers computes of it.

Run from the repository's root, in an environment with torch and transformers:

    python tests/peers/make_clip_fixture.py

The folder is a Hugging Face folder (weights in float16, computed with in float32) with a working
tokenizer; expected.npz holds `pixels` (of the pictures of pictures.py), `padded` (the same with
LLaVA's padding to a square), `tokens` of TEXTS, `image` and `text` embeddings before the norm, and
`logits` per image.
"""

import json
import pathlib

import numpy as np
import torch
from pictures import pictures
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTokenizer,
    LlavaImageProcessorPil,
)

TARGET = pathlib.Path(__file__).parents[1] / "fixtures" / "clip"
TEXTS = ["a red cat", "a green bat on a mat", "ab"]
LETTERS = "abcdegmnort"
MERGES = ["a t</w>", "c at</w>", "b at</w>", "e d</w>", "r ed</w>", "o n</w>"]
IMAGE, POSITIONS = 12, 16


def make_tokenizer(folder: pathlib.Path) -> CLIPTokenizer:
    """Letters, letters at the end of a word, a few merges and the two specials, the end last."""
    words = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    words += [merge.replace(" ", "") for merge in MERGES]
    words += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES]) + "\n")
    return CLIPTokenizer.from_pretrained(folder, model_max_length=POSITIONS)


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Weights that make every part count, exact in float16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = 0.3 * torch.randn(weight.shape, generator=generator)
            gain = "norm" in name and name.endswith("weight")
            weight.copy_((noise + 1 if gain else noise).half().float())


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(TARGET)
    tower = {"num_attention_heads": 2, "intermediate_size": 24, "hidden_size": 16}
    config = CLIPConfig(
        text_config={
            **tower,
            "num_hidden_layers": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": POSITIONS,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id,
        },
        vision_config={**tower, "num_hidden_layers": 3, "image_size": IMAGE, "patch_size": 4},
        projection_dim=8,
        attn_implementation="eager",
    )
    model = CLIPModel(config).eval()
    randomise(model, seed=0)
    edges = {"size": {"shortest_edge": IMAGE}, "crop_size": {"height": IMAGE, "width": IMAGE}}
    processor = CLIPImageProcessorPil(**edges)
    tokens = tokenizer(TEXTS, padding="max_length", return_tensors="pt")["input_ids"]
    pixels = processor(pictures(), return_tensors="pt")["pixel_values"]
    padding = LlavaImageProcessorPil(**edges, do_pad=True)
    padded = padding(pictures(), return_tensors="np")["pixel_values"]
    with torch.no_grad():
        output = model(input_ids=tokens, pixel_values=pixels)
        image = model.get_image_features(pixels).pooler_output
        text = model.get_text_features(tokens).pooler_output
    np.savez_compressed(
        TARGET / "expected.npz",
        pixels=pixels.numpy().transpose(0, 2, 3, 1),
        padded=padded.transpose(0, 2, 3, 1),
        tokens=tokens.numpy().astype(np.int32),
        image=image.numpy(),
        text=text.numpy(),
        logits=output.logits_per_image.numpy(),
    )
    model.half().save_pretrained(TARGET)
    processor.save_pretrained(TARGET)
    tokenizer.save_pretrained(TARGET)


if __name__ == "__main__":
    main()
