"""Writes tests/fixtures/lm.npz: what Hugging Face's transformers makes of the tiny models.

Needs torch and transformers, which no test does:

    python tests/peers/make_lm_fixtures.py tests/fixtures/lm.npz
"""

import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import lm_folders

NEW_TOKENS = 10


def main() -> None:
    arrays = {"tokens": lm_folders.tokens()}
    ids = torch.from_numpy(arrays["tokens"])
    with tempfile.TemporaryDirectory() as scratch:
        for name in lm_folders.CONFIGS:
            folder = pathlib.Path(scratch, name)
            lm_folders.write_folder(folder, lm_folders.config_of(name))
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            with torch.no_grad():
                logits = model(ids).logits
                greedy = model.generate(
                    ids,
                    max_new_tokens=NEW_TOKENS,
                    do_sample=False,
                    eos_token_id=None,
                    attention_mask=torch.ones_like(ids),
                    pad_token_id=0,
                )
            arrays[f"{name}/logits"] = logits[0].numpy()
            arrays[f"{name}/greedy"] = greedy[:, ids.shape[1] :].numpy()
    np.savez_compressed(sys.argv[1], **arrays)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
