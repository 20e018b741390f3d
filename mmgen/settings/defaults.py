"""Every key of a configuration, with its meaning, in one place.

A key whose right value depends on the profile, the model or the data set is a placeholder here and
is filled by `mmgen.settings.resolve.resolve`, after the command line's overrides.

Keys are *identity* (they decide the numbers: a checkpoint of other values is another run) unless
they stand in `OPERATIONAL`.
"""

from ml_collections import ConfigDict, config_dict

from mmgen.data.folder import PREPARED

OPERATIONAL = (
    "name",
    "num_seeds",
    "metrics",
    "data_dir",
    "mesh",
    "residency",
    "packing",
    "deterministic",
    "checkpoint",
    "logging",
)
"""Top-level keys that change how a run is executed, not what it computes."""

EVALUATIONS = 5
"""Evaluations before the final one of schedule "even"."""

placeholder = config_dict.placeholder


def default_config() -> ConfigDict:
    """The full, unlocked tree of keys of a training run on a masked-span data set."""
    config = ConfigDict()
    # What is trained or asked, see mmgen.settings.kinds.
    config.kind = "masked_span"
    # Name of the experiment, used for the default workdir; the config file's stem.
    config.name = "experiment"
    # Initialisation, dropout and replay draws.
    config.seed = 0
    # Runs with seed, seed + 1, ... that train side by side in one program, see mmgen.seeds.
    config.num_seeds = 1
    # World, split and stream order. Multi-seed runs vary `seed` only.
    config.data_seed = 0
    # Where paper and released code differ: "paper" (as written) or "release" (as the code runs).
    config.profile = "paper"
    # Folder of prepared data sets (`python -m mmgen.data.build`); worlds are built there on demand.
    config.data_dir = PREPARED
    # Examples of a stream batch.
    config.batch_size = 32
    # Length of training: at most one of these; none is one epoch, a pass over the stream.
    config.total = ConfigDict()
    config.total.steps = placeholder(int)
    config.total.epochs = placeholder(float)
    config.total.examples = placeholder(int)
    # Workdir of a run of the same model and vocabulary whose weights to begin with; "" is none.
    config.init_from = ""
    # "" multimodal; "zero": features are zeros, objects stay; "drop": no objects at all.
    config.text_only = ""

    dataset = config.dataset = ConfigDict()
    # Name of a prepared data set, or of a built-in world.
    dataset.name = "scene_world"
    # Training instances of a world.
    dataset.instances = placeholder(int)
    # Sizes of a world's other splits.
    dataset.validation_items = placeholder(int)
    dataset.test_items = placeholder(int)
    dataset.novel_items = placeholder(int)
    # Knobs of a world, see its module.
    dataset.amplitude = placeholder(float)
    dataset.role_amplitude = placeholder(float)
    dataset.topic_purity = placeholder(float)
    # Must-fail control: pair every caption with the features of another image.
    dataset.shuffle_features = False

    stream = config.stream = ConfigDict()
    # "shift" (task after task), "iid" (one shuffle), "iid_epochs" (several epochs, shuffled).
    stream.kind = "shift"
    # "iid_epochs": another order in each epoch? The released code keeps the first one.
    stream.reshuffle = placeholder(bool)
    # Order of the task centres: "random", "ascending" or "descending" by task size.
    stream.order = "random"
    # Width of a bin and floor of a task's spread, in instances; floor 0 is none.
    stream.bin_width = placeholder(int)
    stream.spread_floor = placeholder(int)
    # Use the published 1000/3000 whatever the stream's size.
    stream.paper_scale = False
    # Share of the stream that is read, from its start (the learning-rate search uses 0.1).
    stream.share = 1.0

    model = config.model = ConfigDict()
    # "vlbert" or "lxmert", or "package.module:make" (a function of (config, vocabulary rows)).
    model.factory = "vlbert"
    # "small" (2 x 128) or "paper" (6 x 384); sets the fields below that are not given.
    model.size = placeholder(str)
    model.layers = placeholder(int)
    model.hidden = placeholder(int)
    model.heads = placeholder(int)
    model.mlp = placeholder(int)
    # LXMERT only: layers of the visual encoder and of the cross-modal encoder.
    model.visual_layers = placeholder(int)
    model.cross_layers = placeholder(int)
    model.dropout = placeholder(float)
    # Standard deviation of the first weights.
    model.init_std = placeholder(float)
    # Rows of the word table; 30,600 with the published vocabularies, which have fewer tokens.
    model.vocabulary_rows = placeholder(int)
    model.max_positions = 512
    # VLBERT: embed box coordinates (the released code does not).
    model.box_geometry = False
    # Attend only real objects; the released LXMERT attends its padding.
    model.object_mask = placeholder(bool)
    # "float32" or "bfloat16" (compute only; parameters and sums stay float32).
    model.dtype = "float32"

    loss = config.loss = ConfigDict()
    # "token" (mean over masked tokens) or "example" (mean per example, then over examples; the
    # released runs with a balanced memory).
    loss.weighting = placeholder(str)

    algorithm = config.algorithm = ConfigDict()
    # "plain", "er", "agem", "mir", ...: a module of mmgen.algorithms, or "package.module:make".
    algorithm.name = "plain"
    # Rows replayed in an iteration. By the paper ER's are as many as `batch_size`, MIR's 32; the
    # released code replays 32, with MIR 10.
    algorithm.replay_size = placeholder(int)
    # ER: "two_step" (stream update, then replay update) or "joint" (one update on both).
    algorithm.update = "two_step"
    # AGEM: rows of the reference gradient. MIR: candidates scored.
    algorithm.reference_size = placeholder(int)
    algorithm.candidates = placeholder(int)
    # MIR: "avg" over a candidate's masked tokens or "max"; virtual step "adamw" or "sgd".
    algorithm.aggregate = "avg"
    algorithm.virtual_step = "adamw"
    algorithm.scoring_dropout = placeholder(bool)
    # Weight of the regulariser (EWC, SI), of distillation (DER, LwF); DER++'s second weight.
    algorithm.weight = placeholder(float)
    algorithm.label_weight = placeholder(float)
    # Iterations between consolidations (EWC, SI, LwF), and decay of the running estimate.
    algorithm.interval = placeholder(int)
    algorithm.decay = placeholder(float)
    # DER: logits kept per masked token; 0 keeps all rows of the vocabulary.
    algorithm.top_k = placeholder(int)

    memory = config.memory = ConfigDict()
    # "none", "reservoir", "task_balanced", "balanced_sqrt" or "balanced_forget". The last depends
    # on the model's losses: with residency "host" every iteration waits for its draws.
    memory.policy = "none"
    # "1k" or "10k": the paper's sizes; on shorter streams the shares 1.5 % and 10 %.
    memory.size = placeholder(str)
    # Slots; overrides size.
    memory.capacity = placeholder(int)
    # Reservoir rule: "vitter", or "viscoll_release" (the released off-by-one).
    memory.reservoir = placeholder(str)
    # Balanced policies: "memory_target" (the paper's direction) or "target_memory" (the code's).
    memory.divergence = placeholder(str)
    # Balanced policies: do determiners, prepositions and the like count as words?
    memory.count_stop_words = False

    optimizer = config.optimizer = ConfigDict()
    # "adamw" (bias-corrected) or "adam_release" (no bias correction, eps 1e-4, as released).
    optimizer.name = placeholder(str)
    optimizer.learning_rate = placeholder(float)
    optimizer.beta1 = 0.9
    optimizer.beta2 = 0.999
    optimizer.eps = placeholder(float)
    optimizer.weight_decay = 0.0
    # Global-norm clipping of the gradients; 0 is none.
    optimizer.clip_norm = 0.0

    buckets = config.buckets = ConfigDict()
    # Shapes that batches are padded to: how many are derived from the data set's length tables
    # (1 to 3), or the text lengths and object counts themselves, e.g. (16, 24) and (8, 36).
    buckets.max = placeholder(int)
    buckets.text = placeholder(tuple)
    buckets.objects = placeholder(tuple)

    evaluation = config.evaluation = ConfigDict()
    # "even" (count evaluations at equal distances) or "paper" (1000, 2000, 4000, ... scaled).
    evaluation.schedule = placeholder(str)
    evaluation.count = EVALUATIONS
    # Items of the fixed stratified subset that intermediate evaluations read, 0 for all; more where
    # `min_task_items` of each task that has as many are more.
    evaluation.subset = 2000
    evaluation.batch_size = 128
    # Splits of the final evaluation. The subset of the intermediate ones is of the first split, to
    # which forgetting then refers.
    evaluation.splits = ("test", "novel")
    # Tasks with fewer evaluated items are left out of forgetting, and counted.
    evaluation.min_task_items = 20

    # Operational from here on.
    # Metrics of your own besides: import paths separated by commas, see examples/own_metric.py.
    config.metrics = ""
    mesh = config.mesh = ConfigDict()
    # Sizes of the device mesh; data = 0 takes every device that is left.
    mesh.data = 0
    mesh.fsdp = 1
    mesh.tensor = 1
    # "host" (features are read from the store) or "device" (tables live in device memory).
    config.residency = "host"
    # Encoders skip padding ("on", "off"); "auto" does on a CPU where the model is wide enough for
    # it to pay. The same numbers but for the order of sums and, where shapes change, dropout.
    config.packing = "auto"
    # Deterministic GPU kernels (slower); bit-equal resumption on a GPU needs it.
    config.deterministic = False
    checkpoint = config.checkpoint = ConfigDict()
    # Iterations between checkpoints, 0 for about ten in a run; how many are kept.
    checkpoint.every = 0
    checkpoint.keep = 2
    logging = config.logging = ConfigDict()
    # Iterations between log lines, 0 for about fifty in a run.
    logging.every = 0
    # Show the progress bar.
    logging.progress = True
    return config
