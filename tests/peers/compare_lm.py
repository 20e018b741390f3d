"""Compares log-probabilities of a GGUF model in JAX with transformers and torch on the same file.

Needs torch, transformers, accelerate and gguf, which no test does:

    python tests/peers/compare_lm.py MODEL.gguf

SmolLM2-135M-Instruct (Q4_1), 78 tokens of three texts, transformers 5.24, torch 2.13, a CPU: at
most 3.1e-4 apart, 3.3e-5 at the tokens that follow, and the same most likely token everywhere.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from mmgen.core.mesh import make_mesh
from mmgen.models.lm import llama
from mmgen.models.lm.model import open_model

TEXTS = (
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "Le seguenti 4 frasi sono descrizioni di azioni fisiche. 1: La donna spinge il carrello.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))  # 5",
)


def main() -> None:
    file = pathlib.Path(sys.argv[1])
    ours = open_model(file, make_mesh(data=1))
    # Its own reading of the file: dequantised and reordered by other code than ours.
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    for text in TEXTS:
        ids = np.array([ours.tokenizer.encode(text, rendered=True)])
        positions = jnp.arange(ids.shape[1])[None]
        hidden, _ = llama.forward(
            ours.params, ours.config, llama.embed(ours.params, ids), positions
        )
        logs = np.asarray(jax.nn.log_softmax(llama.logits(ours.params, hidden)))
        with torch.no_grad():
            logits = theirs(torch.from_numpy(ids)).logits
        wanted = torch.log_softmax(logits, dim=-1).numpy()
        difference = np.abs(logs - wanted)
        same = np.mean(logs.argmax(-1) == wanted.argmax(-1))
        print(
            f"{ids.shape[1]} tokens: max abs difference of log-probabilities "
            f"{difference.max():.2e}, of the tokens that follow "
            f"{np.take_along_axis(difference[0, :-1], ids[0, 1:, None], -1).max():.2e}, "
            f"same most likely token {same:.0%}"
        )


if __name__ == "__main__":
    main()
