"""The table of backends: `model=NAME:TARGET`, or `model=package.module:make` for one's own.

fake:perfect                     deterministic, see `fakes`
jax:/path/to/folder-or.gguf      Llama family and LLaVA-1.5 in JAX
jax-package:smollm2              the same from an installed package
server:http://host:8000/v1#name  any OpenAI-compatible server
torch:/path/to/folder            Hugging Face transformers
folder:/path                     outputs made elsewhere
clip:/path, pixel, words         judges of CoBSAT alone, see mmgen.prompting.judges
"""

import importlib
from typing import Any, NamedTuple

from mmgen.errors import UserError
from mmgen.prompting.requests import Backend
from mmgen.settings.suggest import closest

BACKENDS = {
    "fake": "mmgen.prompting.backends.fakes:open_fake",
    "jax": "mmgen.prompting.backends.jax_lm:open_jax",
    "jax-package": "mmgen.prompting.backends.jax_lm:open_package",
    "server": "mmgen.prompting.backends.openai_server:open_server",
    "torch": "mmgen.prompting.backends.transformers_torch:open_torch",
    "folder": "mmgen.prompting.backends.folder:open_folder",
    "clip": "mmgen.prompting.judges.clip_judge:open_clip_judge",
    "pixel": "mmgen.prompting.judges.world_judges:open_pixel",
    "words": "mmgen.prompting.judges.world_judges:open_words",
}
"""Name -> "module:function"; the function maps (target, `BackendOptions`) to a `Backend`."""


class BackendOptions(NamedTuple):
    """Choices that several backends share; each ignores what does not concern it.

    Attributes:
      batch_size: requests at once; None lets the backend choose.
      dtype: of the weights ("float32", "bfloat16"); None lets the backend choose.
      concurrency: requests in flight to a server.
      timeout: seconds a server has for one request.
      attempts: tries of a request within one run before its failure is stored.
      mesh: axis sizes of the device mesh for `mmgen.core.mesh.make_mesh`, None for one device.
      chat_template: file of a chat template that replaces the tokenizer's own; None keeps it.
      max_context: tokens that prompt and answer may have; None is the model's own limit.
      adapter: folder of LoRA adapters for a JAX model; None is none.
    """

    batch_size: int | None = None
    dtype: str | None = None
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 4
    mesh: dict[str, int] | None = None
    chat_template: str | None = None
    max_context: int | None = None
    adapter: str | None = None


def open_backend(spec: str, **options: Any) -> Backend:
    """Opens the backend that `spec` names; nothing is loaded for the others.

    Args:
      spec: "name:target" as above, or "package.module:make" of a function
        `(target "", BackendOptions) -> Backend`.
      options: fields of `BackendOptions`.

    Raises:
      UserError: no such backend, or it cannot be opened.
    """
    name, _, target = spec.partition(":")
    if name in BACKENDS:
        path = BACKENDS[name]
    elif "." in name and target:
        path, target = spec, ""
    else:
        known = ", ".join(f"{known}:..." for known in BACKENDS)
        raise UserError(
            f"There is no model {spec!r}{closest(name, BACKENDS)}; give one of {known}, for "
            "instance fake:perfect."
        )
    module, function = path.split(":")
    return getattr(importlib.import_module(module), function)(target, BackendOptions(**options))
