"""Every key of a fine-tuning run, with its meaning.

Values are the paper's (section 7.1): LoRA of rank 64, weight decay .1, warm-up .01, five epochs.
What the paper leaves open is as in its code, and says so.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from mmgen.data.folder import PREPARED
from mmgen.settings.identity import identity, short_digest

OPERATIONAL = ("name", "data_dir", "mesh", "checkpoint", "logging")
"""Top-level keys that change how a run is executed, not what it computes."""

placeholder = config_dict.placeholder


def finetune_config() -> ConfigDict:
    """The full, unlocked tree of keys."""
    config = ConfigDict()
    # What is trained or asked, see mmgen.settings.kinds.
    config.kind = "finetune"
    # Name of the experiment, used for the default workdir; the config file's stem.
    config.name = "experiment"
    # Adapters, dropout, order of the examples.
    config.seed = 0
    # Built-in world.
    config.data_seed = 0
    # Folder of prepared data sets (`python -m mmgen.data.build`); worlds are built there on demand.
    config.data_dir = PREPARED

    model = config.model = ConfigDict()
    # jax:FOLDER (Llama family for captions, LLaVA-1.5 for images too) or jax-package:NAME.
    model.spec = "jax-package:smollm2"
    # "float32" or "bfloat16" (the code's).
    model.dtype = "float32"

    dataset = config.dataset = ConfigDict()
    # "shape_world", or the name of a folder of images in CoBSAT's layout.
    dataset.name = "shape_world"

    finetune = config.finetune = ConfigDict()
    # Demonstrations, 0 to 4; one model per number, as in Table 4.
    finetune.shots = 2
    # "all" (the first halves of both lists) or "leave_one_out" (the other themes, all words).
    finetune.split = "all"
    # The theme that leave_one_out leaves out and tests on.
    finetune.theme = ""
    # Tasks by name or number; "all", "object", "attribute", or a theme.
    finetune.tasks = ("all",)
    # "default" (images), "instruct" (images), or "caption" (captions instead, for text models);
    # none is "caption" for the models of packages, which read no images, and "default" for others.
    finetune.prompt = placeholder(str)
    # Whose instruction, and from which table: see mmgen.prompting.cobsat.instructions.
    finetune.instructions = "llava"
    finetune.table = "paper"
    finetune.epochs = 5
    # The code's: batches of 1, gradients of 8 of them averaged before each update.
    finetune.batch_size = 1
    finetune.accumulation = 8
    # Tokens of prompt and answer; the code's. Longer ones are refused, not cut.
    finetune.max_length = 2048
    # Compute layers again in the backward pass (the code's gradient checkpointing).
    finetune.remat = True
    # Train on so many examples only, drawn over all tasks; none is all.
    finetune.limit = placeholder(int)

    lora = config.lora = ConfigDict()
    lora.rank = 64
    # Alpha and dropout are the code's.
    lora.alpha = 16.0
    lora.dropout = 0.05
    # The code's for SEED-LLaMA; for Qwen-VL it has c_attn, attn.c_proj, w1, w2, which are
    # q_proj, k_proj, v_proj, o_proj, gate_proj and up_proj here.
    lora.targets = ("q_proj", "k_proj", "v_proj", "o_proj")

    optimizer = config.optimizer = ConfigDict()
    # AdamW; rate and beta2 are the code's, as is the cosine.
    optimizer.learning_rate = 1e-5
    optimizer.beta1 = 0.9
    optimizer.beta2 = 0.95
    optimizer.eps = 1e-8
    optimizer.weight_decay = 0.1
    # Share of the updates in which the rate rises.
    optimizer.warm_up = 0.01
    # The default of the trainer that the code uses.
    optimizer.clip_norm = 1.0

    evaluation = config.evaluation = ConfigDict()
    # Evaluations of the likelihood after the first, evenly spread; the last also asks for text.
    evaluation.count = 5
    evaluation.batch_size = 8
    # New tokens of an answer.
    evaluation.max_tokens = 64
    # Test on so many of the held-out prompts only, drawn over all tasks; none is all.
    evaluation.limit = placeholder(int)

    # Devices the model is spread over; data 0 takes all that are left.
    config.mesh = ConfigDict({"data": 0, "fsdp": 1, "tensor": 1})

    checkpoint = config.checkpoint = ConfigDict()
    # Updates between checkpoints; none is a tenth of the run.
    checkpoint.every = placeholder(int)
    checkpoint.keep = 2

    logging = config.logging = ConfigDict()
    # Updates between log lines; none is a fiftieth of the run.
    logging.every = placeholder(int)
    logging.progress = True
    return config


def finetune_workdir(config: ConfigDict, facts: Mapping[str, Any]) -> str:
    """`runs/<config>/<dataset>-<split>-<shots>shot-s<seed>-<hash6>`."""
    digest = short_digest(identity(config, facts))
    chosen = f"{config.finetune.split}-{config.finetune.shots}shot-s{config.seed}"
    return f"runs/{config.name}/{facts['name']}-{chosen}-{digest}"
