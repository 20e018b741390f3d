"""Every key of a prompted run, with its meaning.

A run asks `model` the questions of one benchmark, has a judge look at the answers where the
benchmark needs one, and scores. Each benchmark has a group of keys of its own; those of the others
decide nothing and are no part of a run's identity.
"""

import re
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from mmgen.data.folder import PREPARED
from mmgen.settings.cobsat import cobsat_group
from mmgen.settings.identity import identity, short_digest

OPERATIONAL = ("name", "data_dir", "backend", "only", "reuse", "shard", "logging")
"""Top-level keys that change how a run is executed, not what it computes."""

BENCHMARK_GROUPS = ("macid", "cobsat", "compact")
"""Groups of keys that matter to their benchmark alone."""

placeholder = config_dict.placeholder


def prompting_config() -> ConfigDict:
    """The full, unlocked tree of keys."""
    config = ConfigDict()
    # What is trained or asked, see mmgen.settings.kinds.
    config.kind = "prompting"
    # "macid", "cobsat" or "compact", or "package.module:make" (a function of the config).
    config.benchmark = "macid"
    # Name of the experiment, used for the default workdir; the config file's stem.
    config.name = "experiment"
    # Sampled answers, few-shot examples drawn at random; each sample's own seed comes from it.
    config.seed = 0
    # Built-in worlds.
    config.data_seed = 0
    # Folder of prepared data sets (`python -m mmgen.data.build`); worlds are built there on demand.
    config.data_dir = PREPARED
    # Ask only the first so many items (groups, prompts, windows); none asks all.
    config.limit = placeholder(int)
    # Do a part: "generate" (ask the model), "judge" (ask the judge), "score"; "" does all of them.
    config.only = ""
    # Workdirs whose answers to the same requests are taken over before anything is asked.
    config.reuse = ()
    # "0/4": ask the first quarter of the requests alone, to be taken over by a run that reuses it.
    config.shard = ""

    # Whom to ask, see mmgen.prompting.backends for what can be named.
    config.model = _model("fake:random")
    # Who looks at the answers, where the benchmark needs a judge.
    config.judge = _model("")

    backend = config.backend = ConfigDict()
    # Requests worked on at once; none lets the backend choose.
    backend.batch_size = placeholder(int)
    # Requests in flight to a server.
    backend.concurrency = 8
    # Seconds a server has for one request, and tries before its failure is stored.
    backend.timeout = 120.0
    backend.attempts = 4
    # Devices a JAX model is spread over; data 0 takes all that are left.
    backend.mesh = ConfigDict({"data": 0, "fsdp": 1, "tensor": 1})

    decoding = config.decoding = ConfigDict()
    # At most so many new tokens; none takes the benchmark's.
    decoding.max_tokens = placeholder(int)
    # 0 is greedy.
    decoding.temperature = 0.0
    decoding.top_p = 1.0

    dataset = config.dataset = ConfigDict()
    # Name of a prepared data set or of a built-in world; none takes the benchmark's world.
    dataset.name = placeholder(str)

    config.macid = _macid()
    config.cobsat = cobsat_group()
    config.compact = _compact()

    logging = config.logging = ConfigDict()
    # Show how far a run is.
    logging.progress = True
    return config


def _model(spec: str) -> ConfigDict:
    model = ConfigDict()
    model.spec = spec
    # "float32" or "bfloat16"; none lets the backend choose.
    model.dtype = placeholder(str)
    # File of a chat template in place of the model's own.
    model.chat_template = placeholder(str)
    # Tokens that prompt and answer may have; none is the model's limit.
    model.max_context = placeholder(int)
    # Folder of LoRA adapters (of a fine-tuning run, or PEFT's) for a JAX model.
    model.adapter = placeholder(str)
    return model


def _macid() -> ConfigDict:
    """Find the intruder among four action descriptions."""
    macid = ConfigDict()
    # "paper" (as printed, with its typo), "corrected", "harness" (CALAMITA's), or the follow-up's
    # levels "follow_up_0", "follow_up_1", "follow_up_2".
    macid.prompt = "paper"
    # "quadruples", or "pairs": same action or not, six of each group.
    macid.format = "quadruples"
    # "generate" (read the answer), "choices" (log-probability of each), "both"; "auto" is both
    # where the model gives log-probabilities.
    macid.scoring = "auto"
    # How a generated answer is read: "robust", or "follow_up" (what it begins with, as released).
    macid.parser = "robust"
    # Columns s1_LANGUAGE ... of the data set, and language of the instruction: "it" or "en".
    macid.language = "it"
    # "given", "rotations" (4) or "all" (24) orders of the sentences.
    macid.orders = "given"
    # Solved groups shown first, at most as many as are held out.
    macid.shots = 0
    # Groups held out as examples: their number, or ids in `held_out_ids`.
    macid.held_out = 5
    macid.held_out_ids = ()
    # Through the model's chat template; none: not for harness and follow-up prompts.
    macid.chat = placeholder(bool)
    # "text", "frames" or "both", and the folder with VIDEO.jpg or VIDEO/*.jpg.
    macid.modality = "text"
    macid.frames = ""
    # Frames shown of a video, evenly spread.
    macid.frames_per_video = 1
    # Groups of push_world.
    macid.groups = 100
    return macid


def _compact() -> ConfigDict:
    """Say the next narration, from examples."""
    compact = ConfigDict()
    # "llama2" (Fig. 6), "idefics" (Fig. 7) or "idefics_unused" (Fig. 10).
    compact.template = "llama2"
    # Examples, 0 to 8.
    compact.shots = 5
    # "overlap" (most shared verbs and nouns) or "random".
    compact.selection = "overlap"
    # Examples that are never shown: "none", "overlap" (share a clip with the query) or "video".
    compact.exclude = "none"
    # "test" or "validation".
    compact.split = "test"
    # "none", or "keyframes": pictures CLIP.jpg (narration id) in the folder `frames`.
    compact.images = "none"
    compact.frames = ""
    # Through the model's chat template; the published models continued plain text.
    compact.chat = False
    return compact


def prompting_identity(config: ConfigDict, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """See `identity`; the groups of the other benchmarks are no part of it."""
    return identity(config, dataset, unused={*BENCHMARK_GROUPS} - {config.benchmark})


def prompting_workdir(config: ConfigDict, dataset: Mapping[str, Any]) -> str:
    """`runs/<config>/<dataset>-<model>-s<seed>-<hash6>`."""
    digest = short_digest(prompting_identity(config, dataset))
    model = short_name(config.model.spec)
    return f"runs/{config.name}/{dataset['name']}-{model}-s{config.seed}-{digest}"


def short_name(spec: str) -> str:
    """A model's name for folders and tables: what follows the last of `:`, `/` and `#`."""
    if spec.startswith("fake:"):
        return spec.replace(":", "-")
    name = [part for part in re.split(r"[:/#]", spec) if part][-1:] or ["model"]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name[0])
