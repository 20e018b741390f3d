"""A fine-tuning run's parts: resolved config -> examples, model, feeds, what the loop is given."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.core.optim import make_optimizer
from mmgen.core.run_spec import RunSpec
from mmgen.core.state import TrainState
from mmgen.core.workdir import Workdir
from mmgen.models.lm import lora
from mmgen.prompting.cobsat.dataset import CobsatDataset
from mmgen.prompting.finetuning.evaluation import (
    heldout_nll,
    make_records,
    record_name,
    score,
    write_records,
    written_answers,
)
from mmgen.prompting.finetuning.examples import Examples
from mmgen.prompting.finetuning.packing import (
    Encoded,
    PackedFeeds,
    Shape,
    padded_shape,
    training_order,
)
from mmgen.prompting.finetuning.pupil import (
    PictureTable,
    Pupil,
    as_backend,
    frozen_arrays,
    make_encoder,
    open_pupil,
)
from mmgen.prompting.finetuning.training import Learner, answer_nll, make_step, warm_up_cosine
from mmgen.settings.resolve_finetune import lora_config


class Experiment(NamedTuple):
    """Everything a run is made of.

    Attributes:
      config: resolved.
      heldout: encoded prompts of `examples.heldout`; `shape` fits them and the training prompts.
      frozen: see `training.Frozen`.
    """

    config: ConfigDict
    dataset: CobsatDataset
    examples: Examples
    pupil: Pupil
    learner: Learner
    frozen: dict[str, Any]
    feeds: PackedFeeds
    heldout: list[Encoded]
    shape: Shape

    @property
    def num_steps(self) -> int:
        """Updates in all."""
        return len(self.feeds)


def update_count(examples: int, config: ConfigDict) -> int:
    """Updates of a run over so many examples; what fills no whole update at the end is left out."""
    finetune = config.finetune
    return examples * finetune.epochs // (finetune.batch_size * finetune.accumulation)


def build(config: ConfigDict, dataset: CobsatDataset, examples: Examples, mesh: Mesh) -> Experiment:
    """Opens the model and reads every example.

    Raises:
      UserError: the model cannot be opened, cannot read the prompts, or they are too long for it.
    """
    finetune = config.finetune
    pupil = open_pupil(config.model.spec, mesh, config.model.dtype)
    table = PictureTable()
    encode = make_encoder(pupil, table)
    train = [encode(example) for example in examples.train]
    heldout = [encode(example) for example in examples.heldout]
    longest = min(finetune.max_length, pupil.language.config.max_length)
    shape = padded_shape([*train, *heldout], longest)
    frozen = frozen_arrays(pupil, table, mesh)
    order = training_order(len(train), finetune.epochs, config.seed)
    feeds = PackedFeeds(train, order, finetune.batch_size * finetune.accumulation, shape, frozen)
    learner = Learner(
        pupil.language.config, lora_config(config), pupil.language.dtype, finetune.remat
    )
    return Experiment(config, dataset, examples, pupil, learner, frozen, feeds, heldout, shape)


def run_spec(experiment: Experiment, folder: Workdir) -> RunSpec:
    """What the loop needs to know; its state holds adapters and optimizer, nothing of the model."""
    config, steps = experiment.config, experiment.num_steps
    chosen = config.optimizer
    optimizer = make_optimizer(
        "adamw",
        warm_up_cosine(chosen.learning_rate, steps, chosen.warm_up),
        chosen.beta1,
        chosen.beta2,
        chosen.eps,
        chosen.weight_decay,
        chosen.clip_norm,
    )
    learner = experiment.learner

    def init(key: Key[Array, ""]) -> TrainState:
        adapters = lora.init(key, learner.config, learner.lora)
        return TrainState(jnp.int32(0), adapters, optimizer.init(adapters))

    rows = config.finetune.batch_size * config.finetune.accumulation
    return RunSpec(
        num_steps=steps,
        seed=config.seed,
        init=init,
        step=make_step(learner, optimizer, config.finetune.batch_size),
        feeds=experiment.feeds,
        feed_rows=(rows,),
        eval_steps=evaluation_steps(steps, config.evaluation.count),
        evaluate=_evaluator(experiment, folder),
        save_every=config.checkpoint.every or max(1, steps // 10),
        log_every=config.logging.every or max(1, steps // 50),
        examples_per_step=rows,
        keep=config.checkpoint.keep,
        is_missing=lambda step, final: not folder.file(record_name(step)).exists(),
    )


def evaluation_steps(steps: int, count: int) -> tuple[int, ...]:
    """Before the first update, and `count` times after it, the last update included."""
    return tuple(sorted({steps * place // count for place in range(count + 1)}))


def _evaluator(experiment: Experiment, folder: Workdir):
    """`(adapters, step, final) -> metrics`, which also writes the records.

    Text is asked for before the first update, which is the untuned model, and after the last.
    """
    config, learner, frozen = experiment.config, experiment.learner, experiment.frozen
    rows = config.evaluation.batch_size
    nll = jax.jit(
        lambda frozen, adapters, batch: answer_nll(learner, frozen, adapters, batch, None)
    )
    caption = experiment.dataset.images.caption

    def evaluate(adapters: Any, step: int, final: bool) -> dict[str, float]:
        values = list(
            heldout_nll(
                lambda batch: nll(frozen, adapters, batch),
                experiment.heldout,
                experiment.shape,
                rows,
            )
        )
        answers = None
        if final or step == 0:
            backend = as_backend(experiment.pupil, adapters, learner.lora, rows)
            answers = written_answers(backend, experiment.examples.heldout)
        records = make_records(experiment.examples.heldout, values, answers, caption)
        write_records(folder, step, records)
        return score(records)

    return evaluate
