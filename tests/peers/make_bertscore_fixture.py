"""Writes tests/fixtures/bertscore: a tiny BERT and a tiny RoBERTa, and what bert_score says.

Run from the repository's root, in an environment with torch, transformers and bert_score:

    python tests/peers/make_bertscore_fixture.py

Each is a Hugging Face folder with random weights (float16, computed with in float32) and a working
tokenizer. expected.json holds the pairs and, by folder, their precision, recall and F1 at `LAYER`.
"""

import json
import pathlib

import bert_score
import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from tokenizers.processors import RobertaProcessing
from transformers import BertConfig, BertModel, BertTokenizer, RobertaConfig, RobertaModel

TARGET = pathlib.Path(__file__).parents[1] / "fixtures" / "bertscore"
LAYER = 2
CANDIDATES = ["pick up the cup", "wash  pan", "cut onion and onion", "put_down lid", "the"]
REFERENCES = ["put down the cup", "rinse the pan", "cut an onion", "put_down lid", "lid"]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "attn_implementation": "eager",
}
LETTERS = "abcdefghiklmnoprstuw_"


def make_bert(folder: pathlib.Path) -> None:
    """Lower-case WordPiece: letters, a few words, the specials."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cup", "pan", "##ion", "pick"]
    words += [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=24).save_pretrained(folder)
    save(BertModel(BertConfig(vocab_size=len(words), **SIZES)), folder)


def make_roberta(folder: pathlib.Path) -> None:
    """Byte-level BPE whose first word is as any other, which is how bert_score calls it."""
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=True)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(CANDIDATES + REFERENCES, 280, 2, special_tokens=specials)
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
            | {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
            | {"model_max_length": 22}
        )
    )
    size = tokenizer.get_vocab_size()
    config = RobertaConfig(vocab_size=size, type_vocab_size=1, layer_norm_eps=1e-5, **SIZES)
    save(RobertaModel(config), folder)


def save(model: torch.nn.Module, folder: pathlib.Path) -> None:
    """Random weights that float16 holds exactly, wide enough that layers do something."""
    torch.manual_seed(len(str(type(model))))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + 0.2 * torch.randn_like(parameter)).half().float())
    model.half().save_pretrained(folder)
    config = folder / "config.json"
    # Else transformers would compute in float16.
    config.write_text(config.read_text().replace('"float16"', '"float32"'))


def expected(folder: pathlib.Path) -> dict[str, list[float]]:
    """P, R and F1 of the pairs."""
    scores = bert_score.score(
        CANDIDATES, REFERENCES, model_type=str(folder), num_layers=LAYER, use_fast_tokenizer=True
    )
    return {
        name: np.round(values.numpy(), 7).tolist()
        for name, values in zip(("precision", "recall", "f1"), scores, strict=True)
    }


def main() -> None:
    """Write both folders and the scores."""
    make_bert(TARGET / "bert")
    make_roberta(TARGET / "roberta")
    found = {"layer": LAYER, "candidates": CANDIDATES, "references": REFERENCES}
    for name in ("bert", "roberta"):
        found[name] = expected(TARGET / name)
        for file in (TARGET / name).iterdir():
            if file.name not in ("config.json", "tokenizer.json", "model.safetensors"):
                file.unlink()
            else:
                file.chmod(0o644)
    (TARGET / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
