"""What the scores of CompAct need besides the records: `evals/context.json` of a workdir.

    task, form, splits   "utterance", "verb" or "noun"; form of the predictions; evaluated splits
    dataset              name, fingerprint, world, epic (is it EPIC-KITCHENS?), settings of the
                         split, sizes
    verbs, nouns         strings of the class lists -> class
    narrations           plain narration of train -> [verb, noun, verb class, noun class]
    phrases              joined words of train
    labels               tasks verb and noun: target string of train -> class
    compounds            split -> target compounds, joined strings or classes, as it was made
    bertscore            the encoder of BERTScore, or null
    baselines            split -> baseline -> its joined text for every row of the split

It is written and read by `mmgen.evaluation.context`. With it every metric is recomputed from the
workdir alone, without the prepared data set.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from etils import epath

from mmgen.compact.baselines import baselines
from mmgen.compact.forms import FORMS
from mmgen.compact.records import TASKS
from mmgen.data.compact.dataset import CompactDataset, is_epic, target_compound
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.text import JOINER, joined_noun, joined_verb
from mmgen.errors import UserError
from mmgen.evaluation.context import NAME, Context, read_context
from mmgen.settings.suggest import check_choice

SETTINGS = ("split", "compounds", "target_dc", "unseen", "group", "validation")
"""Settings of a split that a report names."""

KEYS = (
    "kind",
    "task",
    "form",
    "splits",
    "dataset",
    "verbs",
    "nouns",
    "narrations",
    "phrases",
    "labels",
    "compounds",
    "bertscore",
    "baselines",
)


def make_context(
    dataset: CompactDataset,
    *,
    task: str,
    splits: Sequence[str],
    form: str = "joined",
    bertscore: Mapping[str, Any] | None = None,
) -> Context:
    """The context of a run, as JSON-able values.

    Args:
      dataset: the data the run is evaluated on.
      task: one of `mmgen.compact.records.TASKS`.
      splits: evaluated splits, for which the baselines predict.
      form: of the predictions, one of `mmgen.compact.forms.FORMS`.
      bertscore: `mmgen.metrics.bertscore.encoder_facts`; None leaves BERTScore out.

    Raises:
      UserError: an unknown task, form or split.
    """
    check_choice("task", task, TASKS)
    check_choice("form", form, FORMS)
    info, settings = dataset.info, dataset.info["settings"]
    train = dataset.split("train")
    return {
        "kind": "compact",
        "task": task,
        "form": form,
        "splits": list(splits),
        "dataset": {
            **{key: info[key] for key in ("name", "fingerprint", "world")},
            "epic": is_epic(info),
            **{key: settings.get(key) for key in SETTINGS},
            "splits": {
                name: {key: facts[key] for key in ("examples", "videos", "clips")}
                for name, facts in info["splits"].items()
            },
        },
        "verbs": dict(dataset.verbs.class_of),
        "nouns": dict(dataset.nouns.class_of),
        "narrations": _narrations(train),
        "phrases": _phrases(train),
        "labels": {} if task == "utterance" else _labels(train, task),
        "compounds": {
            name: sorted({_compound(one, settings["compounds"]) for one in dataset.split(name)})
            for name in dict.fromkeys(("train", *splits))
        },
        "bertscore": bertscore and dict(bertscore),
        "baselines": {name: baselines(train, dataset.split(name), task) for name in splits},
    }


def read_compact_context(workdir: epath.PathLike) -> Context:
    """The context of a CompAct run.

    Raises:
      UserError: the workdir has none, or it is damaged or that of another kind of run.
    """
    context = read_context(workdir)
    lacking = [key for key in KEYS if not isinstance(context, dict) or key not in context]
    if lacking:
        raise UserError(
            f"{epath.Path(workdir) / NAME} is no context of a CompAct run (it lacks "
            f"{lacking[0]!r}): run python -m mmgen.evaluate --workdir {workdir} --from-checkpoint"
        )
    return context


def _narrations(train: Sequence[Instance]) -> dict[str, list[Any]]:
    """Every narration's most frequent annotation; of equals the first."""
    return {
        narration: list(annotation)
        for narration, annotation in _most_frequent(
            (
                one["narrations"][clip],
                (
                    joined_verb(one["verbs"][clip]),
                    joined_noun(one["nouns"][clip]),
                    one["verb_classes"][clip],
                    one["noun_classes"][clip],
                ),
            )
            for one in train
            for clip in range(len(one["narrations"]))
        ).items()
    }


def _compound(instance: Instance, level: str) -> tuple[Any, ...]:
    """(verb, noun) of the target: joined strings, as records have them, or classes."""
    if level == "string":
        return instance["trgverb"], instance["trgnoun"]
    return target_compound(instance, level)


def _phrases(train: Sequence[Instance]) -> list[str]:
    words = {word for one in train for key in ("src", "trg") for word in one[key].split()}
    return sorted(word for word in words if JOINER in word)


def _labels(train: Sequence[Instance], task: str) -> dict[str, int]:
    classes = f"{task}_classes"
    return _most_frequent((one[TASKS[task]], one[classes][-1]) for one in train)


def _most_frequent(pairs: Iterable[tuple[str, Hashable]]) -> dict[str, Any]:
    counts: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for name, value in pairs:
        counts[name][value] += 1
    return {name: found.most_common(1)[0][0] for name, found in sorted(counts.items())}
