"""What the JAX backends have in common: devices, batch size, chat template, adapters."""

import pathlib

from mmgen.core.mesh import Mesh, make_mesh
from mmgen.errors import UserError
from mmgen.models.lm import lora
from mmgen.models.lm.model import LanguageModel, file_digest
from mmgen.prompting.backends import BackendOptions


def chosen_mesh(options: BackendOptions) -> Mesh:
    """The devices that the options name, one device by default."""
    return make_mesh(**options.mesh) if options.mesh else make_mesh(data=1)


def chosen_batch_size(options: BackendOptions, default: int) -> int:
    """How many requests at once; UserError if that is no number of requests."""
    size = default if options.batch_size is None else options.batch_size
    if size < 1:
        raise UserError(f"backend.batch_size is {size}; it must be at least 1.")
    return size


def fitted(
    language: LanguageModel, options: BackendOptions
) -> tuple[LanguageModel, dict[str, str]]:
    """The model with the chat template and the adapters that the options name.

    Returns:
      the model, and what a backend's identity says of the adapters.

    Raises:
      UserError: a file is missing, or the adapters do not fit the model.
    """
    if options.chat_template:
        language.tokenizer.set_chat_template(pathlib.Path(options.chat_template).expanduser())
    if not options.adapter:
        return language, {}
    folder = pathlib.Path(options.adapter).expanduser()
    adapters, settings = lora.load_adapters(folder, language.config)
    language = language._replace(params=lora.merge(language.params, adapters, settings))
    return language, {"adapter": file_digest((folder / lora.WEIGHTS, folder / lora.CONFIG))}
