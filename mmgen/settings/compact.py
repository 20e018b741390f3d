"""Every key of a CompAct run, with its meaning, and how choices become a complete config.

As in `mmgen.settings.defaults`: a key whose right value depends on the data set or the size of the
model is a placeholder, filled by `resolve` after the command line's overrides.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from mmgen.data.folder import PREPARED
from mmgen.errors import UserError
from mmgen.settings.args import Argument, apply_arguments, check_bare, key
from mmgen.settings.resolve import get, set_missing
from mmgen.settings.seeds import check_seeds
from mmgen.settings.suggest import check_choice

OPERATIONAL = (
    "name",
    "num_seeds",
    "bertscore",
    "data_dir",
    "mesh",
    "deterministic",
    "checkpoint",
    "logging",
)
"""Top-level keys that change how a run is executed, not what it computes."""

placeholder = config_dict.placeholder

SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "mlp": 32,
        "cross_layers": 1,
        "cross_mlp": 32,
        "fused_layers": 1,
        "classifier": 32,
        "dropout": 0.1,
    },
    "small": {
        "hidden": 64,
        "layers": 1,
        "heads": 4,
        "mlp": 128,
        "cross_layers": 1,
        "cross_mlp": 128,
        "fused_layers": 1,
        "classifier": 64,
        "dropout": 0.1,
    },
    # Section 4.1 and appendix D.1; the widths that they leave open: `mmgen.models.crossmodal`.
    "paper": {
        "hidden": 256,
        "layers": 3,
        "heads": 4,
        "mlp": 512,
        "cross_layers": 3,
        "cross_mlp": 1024,
        "fused_layers": 3,
        "classifier": 128,
        "dropout": 0.3,
    },
}
"""`config.model.size`: keys of `config.model` that it sets where none is given."""

NO_SIZE = ("dropout",)
"""Keys of `SIZES` that make no model larger or smaller."""


def has_published_size(model: ConfigDict) -> bool:
    """Is the resolved `config.model` as large as the published one, whatever its `size` is called?

    The system whose language are features (ImageBind) has no last stack: configs/compact_imagebind.
    """
    published = SIZES["paper"] | ({} if model.language == "words" else {"fused_layers": 0})
    return all(model[key] == value for key, value in published.items() if key not in NO_SIZE)


METRICS = {
    "utterance": "validation/bleu1_joined",
    "verb": "validation/em",
    "noun": "validation/em",
}
"""What training is steered by: unigram BLEU, or accuracy (appendix D.1)."""

EPOCHS = {"world": 40.0, "real": 300.0}
"""Epochs at most, unless a config gives a length."""

STEERING = ("em", "ca", "verb_ca", "noun_ca", "bleu1_joined", "bleu1_plain")
"""Metrics of which more is better, so that training may be steered by them."""

ATOM_STEERING = ("em", "ca")
"""Those of them that the tasks verb and noun have."""

CHOICES = {
    "profile": ("paper",),
    "task": tuple(METRICS),
    "dataset.split": ("mcd", "random", "resplit", "random_by_video"),
    "dataset.validation": ("heldout", "train"),
    "model.fusion": ("cross", "late", "bottleneck", "gated"),
    "model.size": tuple(SIZES),
    "model.dtype": ("float32", "bfloat16"),
    "optimizer.name": ("adamw", "adam_release"),
}
"""Keys with a closed set of values."""

POSITIVE = (
    "num_seeds",
    "batch_size",
    "model.hidden",
    "model.layers",
    "model.heads",
    "model.mlp",
    "model.classifier",
    "model.cross_layers",
    "model.cross_mlp",
    "model.scan_unroll",
    "optimizer.learning_rate",
    "control.stop_after",
    "decoding.beams",
    "decoding.length",
    "evaluation.every",
    "evaluation.batch_size",
    "buckets.max",
)


def compact_config() -> ConfigDict:
    """The full, unlocked tree of keys of a CompAct run."""
    config = ConfigDict()
    config.kind = "compact"
    # Name of the experiment, used for the default workdir; the config file's stem.
    config.name = "experiment"
    # Initialisation, dropout and the order of the examples.
    config.seed = 0
    # World and split; None: 0, or that of the prepared data set that `dataset.name` names. Runs of
    # several seeds vary `seed` only.
    config.data_seed = placeholder(int)
    # Train this many seeds one after the other, from `seed` on: workdirs s0, s1, ... and a mean.
    config.num_seeds = 1
    # No code of the authors is public, so there is the paper alone.
    config.profile = "paper"
    # Folder of prepared data sets (`python -m mmgen.data.build`); worlds are built there on demand.
    config.data_dir = PREPARED
    # "utterance" (an encoder-decoder), "verb" or "noun" (classifiers).
    config.task = "utterance"
    # Not stated in the paper.
    config.batch_size = 32
    # Length of training unless it stops early: at most one of these.
    config.total = ConfigDict()
    config.total.steps = placeholder(int)
    config.total.epochs = placeholder(float)
    config.total.examples = placeholder(int)

    dataset = config.dataset = ConfigDict()
    # "kitchen_world" (built in), "compact" (EPIC-KITCHENS, of the split below), or the name of any
    # prepared data set of this kind.
    dataset.name = "kitchen_world"
    # "mcd" (compositional), "random", "resplit" (the in-domain control), "random_by_video".
    dataset.split = placeholder(str)
    # Compound divergence of "mcd"; None is the builder's default, as high as possible on real data.
    dataset.target_dc = placeholder(float)
    # "heldout" (half of the held-out pool, as the paper) or "train" (a tenth of train).
    dataset.validation = placeholder(str)
    # Knobs of the world, see its module.
    dataset.videos = placeholder(int)
    dataset.sizes = placeholder(tuple)
    dataset.atom_limit = placeholder(float)
    # Modalities that each window takes from another window, or that are absent everywhere.
    dataset.shuffled = ()
    dataset.dropped = ()
    # Share of the data set's clips that a modality of the run may lack, whatever its builder was
    # told.
    dataset.max_missing = 0.05

    model = config.model = ConfigDict()
    # Sequences that the words are fused with: modalities of the data set, several in one joined by
    # "+"; "objects" is left out in a world, which has none.
    model.inputs = ()
    # "words", or the modality that stands for them.
    model.language = "words"
    # "cross" (the paper's), "late", "bottleneck" or "gated".
    model.fusion = "cross"
    # Cross-modal blocks in both directions; None: with one modality, see mmgen.models.fusion.
    model.two_way = placeholder(bool)
    # The other modality asks and language is asked, instead of the other way round.
    model.swap_query = False
    # "smoke", "small" or "paper"; sets the fields below that are not given.
    model.size = placeholder(str)
    model.hidden = placeholder(int)
    model.layers = placeholder(int)
    model.heads = placeholder(int)
    model.mlp = placeholder(int)
    # Layers and feed-forward width of the fusion, layers of its last, self-attention stack.
    model.cross_layers = placeholder(int)
    model.cross_mlp = placeholder(int)
    model.fused_layers = placeholder(int)
    # Width of the classifiers' hidden layer.
    model.classifier = placeholder(int)
    model.dropout = placeholder(float)
    # "float32" or "bfloat16" (compute only; parameters and sums stay float32).
    model.dtype = "float32"
    # Layers per scan iteration.
    model.scan_unroll = 1

    optimizer = config.optimizer = ConfigDict()
    optimizer.name = "adamw"
    optimizer.learning_rate = placeholder(float)
    optimizer.beta1 = 0.9
    optimizer.beta2 = 0.999
    optimizer.eps = 1e-8
    optimizer.weight_decay = 5e-5
    # Global-norm clipping of the gradients; 0 is none.
    optimizer.clip_norm = 0.1

    control = config.control = ConfigDict()
    # Metric of the validation split that steers and chooses; by default BLEU, or accuracy of atoms.
    control.metric = placeholder(str)
    # Factor on the learning rate after `patience` evaluations without improvement.
    control.factor = 0.1
    control.patience = placeholder(int)
    # Training ends after this many evaluations without improvement.
    control.stop_after = placeholder(int)
    # Relative change that counts as an improvement.
    control.threshold = 1e-4
    # The learning rate never falls below this share.
    control.min_scale = 0.0

    decoding = config.decoding = ConfigDict()
    # 1 is greedy.
    decoding.beams = 1
    decoding.length_penalty = 0.0
    # Tokens at most, the end included; None: the longest training target and its end.
    decoding.length = placeholder(int)

    buckets = config.buckets = ConfigDict()
    # Shapes that batches are padded to, derived from the lengths of the texts.
    buckets.max = placeholder(int)

    evaluation = config.evaluation = ConfigDict()
    # Epochs between evaluations on the validation split.
    evaluation.every = 1
    evaluation.batch_size = 128
    # Splits of the final evaluation, with the checkpoint that was best on validation.
    evaluation.splits = ("validation", "test")
    # Splits whose records are kept at every evaluation (Fig. 9); none of them steers anything.
    evaluation.curves = ()

    # Operational from here on.
    bertscore = config.bertscore = ConfigDict()
    # Folder of a BERT or RoBERTa for BERTScore, "" for none; the layer and the name of the encoder
    # where the folder's own name does not tell them.
    bertscore.folder = ""
    bertscore.layer = placeholder(int)
    bertscore.name = ""
    mesh = config.mesh = ConfigDict()
    # Sizes of the device mesh; data = 0 takes every device that is left.
    mesh.data = 0
    mesh.fsdp = 1
    mesh.tensor = 1
    # Deterministic GPU kernels (slower); bit-equal resumption on a GPU needs it.
    config.deterministic = False
    checkpoint = config.checkpoint = ConfigDict()
    # Iterations between checkpoints, 0 for about twenty in a run but at most one an epoch; how many
    # are kept besides the best, which is saved whenever there is a better one.
    checkpoint.every = 0
    checkpoint.keep = 2
    logging = config.logging = ConfigDict()
    # Iterations between log lines, 0 for about two hundred in a run.
    logging.every = 0
    logging.progress = True
    return config


def _smoke(config: ConfigDict, value: str) -> None:
    """Seconds instead of minutes: a tiny world, a tiny model, three epochs."""
    check_bare("smoke", value)
    config.dataset.videos = 16
    config.dataset.sizes = (240, 120, 120)
    config.dataset.atom_limit = 0.05
    config.model.size = "smoke"
    config.total.epochs = 3.0


def _curves(config: ConfigDict, value: str) -> None:
    """Records of every evaluation on all splits."""
    check_bare("curves", value)
    config.evaluation.curves = ("train", "validation", "test")


ARGUMENTS: dict[str, Argument] = {
    "smoke": _smoke,
    "curves": _curves,
    "task": key("task"),
    "split": key("dataset.split"),
    "dataset": key("dataset.name"),
    "target_dc": key("dataset.target_dc", float),
    "validation": key("dataset.validation"),
    "fusion": key("model.fusion"),
    "size": key("model.size"),
    "beams": key("decoding.beams", int),
    "seed": key("seed", int),
    "data_seed": key("data_seed", int),
}
"""Arguments every config file of a CompAct run takes."""


def compact_arguments(config: ConfigDict, argument: str) -> ConfigDict:
    """`config` after the argument behind the file's colon, locked."""
    return apply_arguments(config, argument, ARGUMENTS)


def check_early(config: ConfigDict) -> None:
    """Refuses what is wrong with any data set, before one is opened or built for it.

    Raises:
      UserError: a value that is none of the choices, a number out of range, a modality that stands
        twice among the inputs, or no split to evaluate.
    """
    for path, choices in CHOICES.items():
        value = get(config, path)
        if value is not None:
            check_choice(f"config.{path}", value, choices)
    if not config.dataset.name:
        raise UserError("config.dataset.name is empty; name a data set, e.g. 'kitchen_world'.")
    check_seeds(config)
    _check_numbers(config)
    _check_names(config)


def resolve(config: ConfigDict, info: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of `config` without placeholders that matter, or a `UserError`.

    Args:
      config: recorded choices, see `compact_config`.
      info: `dataset.json` of the prepared data set.

    Pure: the same two arguments give the same result, and neither is changed.
    """
    config = config.copy_and_resolve_references().unlock()
    check_early(config)
    world = bool(info["world"])
    settings = info["settings"]
    set_missing(config, "data_seed", info["data_seed"])
    for name in ("split", "target_dc", "validation"):
        set_missing(config, f"dataset.{name}", settings.get(name))
    set_missing(config, "model.size", "small" if world else "paper")
    for name, value in SIZES[config.model.size].items():
        set_missing(config, f"model.{name}", value)
    if all(value is None for value in config.total.values()):
        config.total.epochs = EPOCHS["world" if world else "real"]
    set_missing(config, "optimizer.learning_rate", 1e-3 if world else 3e-4)
    set_missing(config, "control.metric", METRICS[config.task])
    set_missing(config, "control.patience", 8 if world else 40)
    set_missing(config, "control.stop_after", 12 if world else 50)
    set_missing(config, "buckets.max", 1 if world else 3)
    _validate(config)
    return config.lock()


def _check_numbers(config: ConfigDict) -> None:
    """Placeholders pass: `resolve` fills them and checks again."""
    for path in POSITIVE:
        value = get(config, path)
        if value is not None and value <= 0:
            raise UserError(f"config.{path} is {value}; it must be positive.")
    if (config.model.fused_layers or 0) < 0:
        raise UserError(
            f"config.model.fused_layers is {config.model.fused_layers}; it must not be negative."
        )
    if not 0 <= config.dataset.max_missing <= 1:
        raise UserError(
            f"config.dataset.max_missing is {config.dataset.max_missing}; it must lie between 0 "
            "and 1."
        )


def _check_names(config: ConfigDict) -> None:
    modalities = Counter(name for group in config.model.inputs for name in group.split("+"))
    for name, count in modalities.items():
        if count > 1:
            raise UserError(f"config.model.inputs names {name!r} twice; leave one of them out.")
    for path in ("evaluation.splits", "evaluation.curves"):
        for name in get(config, path):
            check_choice(f"config.{path}", name, ("train", "validation", "test"))
    if not config.evaluation.splits:
        raise UserError(
            "config.evaluation.splits is empty; name what the final evaluation reads, e.g. "
            "('validation', 'test')."
        )


def _validate(config: ConfigDict) -> None:
    _check_numbers(config)
    if config.buckets.max > 3:
        raise UserError(f"config.buckets.max is {config.buckets.max}; at most 3 are compiled.")
    if not config.control.metric.startswith("validation/"):
        raise UserError(
            f"config.control.metric is {config.control.metric!r}; only validation may steer a run: "
            "give one that begins with 'validation/'."
        )
    names = STEERING if config.task == "utterance" else ATOM_STEERING
    metrics = [f"validation/{name}" for name in names]
    check_choice("config.control.metric", config.control.metric, metrics)
