"""A text model, a LLaVA and a theme of CoBSAT, small enough to fine-tune in a test."""

import csv
import json
import pathlib
import shutil

import safetensors.numpy
from PIL import Image

from mmgen.prompting.cobsat.lists import THEMES
from mmgen.settings.finetune import finetune_config

LLAVA = pathlib.Path(__file__).parents[2] / "fixtures" / "llava"

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
LENGTH = 1024


def write_llava(folder):
    """The fixture, but for longer texts."""
    shutil.copytree(LLAVA, folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = LENGTH
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_text_model(folder):
    """The fixture's language model alone, in its own layout, with a chat template."""
    folder.mkdir()
    prefix = "language_model."
    tensors = {}
    for shard in LLAVA.glob("*.safetensors"):
        tensors |= safetensors.numpy.load_file(shard)
    text = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    safetensors.numpy.save_file(text, folder / "model.safetensors")
    config = json.loads((LLAVA / "config.json").read_text())["text_config"]
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": LENGTH}))
    shutil.copy(LLAVA / "tokenizer.json", folder)
    tokenizer = json.loads((LLAVA / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer | {"chat_template": TEMPLATE})
    )
    return folder


def write_theme(folder):
    """The hundred images of the colour theme, one colour each, and their captions."""
    theme = THEMES[0]
    rows = []
    for number, attribute in enumerate(theme.attributes):
        for thing in theme.objects:
            path = folder / f"color_{thing}" / f"{attribute}_{thing}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16), (25 * number, 250 - 25 * number, len(thing) * 20)).save(path)
            rows.append((path.name, f"a {attribute} {thing}."))
    with (folder / "color_object.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "caption"), *rows])
    return folder


def tiny_config(data_dir, model, prompt):
    """Eight updates over twelve prompts."""
    config = finetune_config()
    config.name = "tiny"
    config.data_dir = str(data_dir)
    config.dataset.name = "theme"
    config.model.spec = f"jax:{model}"
    config.finetune.update(
        {
            "shots": 1,
            "tasks": ("color",),
            "prompt": prompt,
            "instructions": "none",
            "epochs": 2,
            "accumulation": 3,
            "limit": 12,
            "remat": False,
        }
    )
    config.lora.rank = 4
    config.optimizer.learning_rate = 0.02
    config.evaluation.update({"count": 2, "batch_size": 3, "max_tokens": 8, "limit": 6})
    config.checkpoint.every = 2
    config.logging.update({"every": 1, "progress": False})
    config.mesh.data = 1
    return config
