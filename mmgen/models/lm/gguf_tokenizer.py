"""A tokenizer from the metadata of a GGUF file, for byte-level BPE, which they hold whole.

SentencePiece vocabularies (Llama 2, Vicuna, Mistral) lose their normalisation on the way into a
GGUF file; those need the published tokenizer beside it.
"""

from collections.abc import Callable
from typing import Any

from mmgen.errors import UserError
from mmgen.models.lm.tokenizer import Tokenizer, import_transformers

_CONTROL, _USER_DEFINED = 3, 4
"""llama.cpp's types of tokens that stand outside the merges."""

# llama.cpp's names of how text is cut before merging (tokenizer.ggml.pre) -> the pattern of
# tokenizer.json; None cuts single digits, then as GPT-2.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {"smollm": None, "llama-bpe": _LLAMA3, "qwen2": _LLAMA3.replace("{1,3}", "")}


def tokenizer_from_gguf(metadata: Callable[[str], Any], where: str) -> Tokenizer:
    """The tokenizer that the metadata describe.

    Args:
      metadata: `key -> value`, None where the key is absent.
      where: file, for errors.

    Raises:
      UserError: it is of another kind than byte-level BPE with a known cut.
    """
    kind, cut = metadata("tokenizer.ggml.model"), metadata("tokenizer.ggml.pre")
    if kind != "gpt2" or cut not in _CUTS:
        raise UserError(
            f"{where} describes a tokenizer of kind {kind!r}/{cut!r}, which cannot be rebuilt from "
            "it; put the model's tokenizer.json and tokenizer_config.json beside the file."
        )
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Fast

    tokens = metadata("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata("tokenizer.ggml.merges")]
    vocabulary = {token: row for row, token in enumerate(tokens)}
    fast = Fast(models.BPE(vocabulary, merges, ignore_merges=cut == "llama-bpe"))
    pattern = _CUTS[cut]
    first: Any = pre_tokenizers.Digits(individual_digits=True)
    if pattern is not None:
        first = pre_tokenizers.Split(Regex(pattern), "isolated")
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    fast.pre_tokenizer = pre_tokenizers.Sequence([first, by_bytes])
    fast.decoder = decoders.ByteLevel()
    if cut == "qwen2":
        fast.normalizer = normalizers.NFC()
    kinds = metadata("tokenizer.ggml.token_type")
    for token, sort in zip(tokens, kinds, strict=True):
        if sort in (_CONTROL, _USER_DEFINED):
            fast.add_tokens([AddedToken(token, special=sort == _CONTROL, normalized=False)])
    bos, eos = (metadata(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    if metadata("tokenizer.ggml.add_bos_token") and bos is not None:
        from tokenizers.processors import TemplateProcessing

        fast.post_processor = TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], int(bos))]
        )
    wrapped = import_transformers().PreTrainedTokenizerFast(
        tokenizer_object=fast,
        bos_token=None if bos is None else tokens[bos],
        eos_token=None if eos is None else tokens[eos],
        chat_template=metadata("tokenizer.chat_template"),
    )
    return Tokenizer(wrapped, where)
