"""Few-shot CompAct as a prompted benchmark; see `mmgen.prompting.fewshot` for its parts."""

import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from ml_collections import ConfigDict

from mmgen.compact.context import make_context
from mmgen.compact.judging import Judge, Judged
from mmgen.compact.records import make_records
from mmgen.compact.scores import score_records
from mmgen.data.compact.dataset import CompactDataset, open_compact
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.windows import TARGET
from mmgen.data.locate import build_once, world_folder
from mmgen.errors import UserError
from mmgen.evaluation.predictions import Record
from mmgen.prompting.benchmark import Benchmark, Replies, Scores, Stage, Traits
from mmgen.prompting.estimates import as_metrics, estimate
from mmgen.prompting.fewshot.selection import choose_examples, leak_rates
from mmgen.prompting.fewshot.tables import leak_table, quality_table
from mmgen.prompting.fewshot.templates import Shown, few_shot_turns, read_narration
from mmgen.prompting.requests import Decoding, Picture, Request, sample_seed

GENERATE = "generate"
WORLD = "kitchen_world"
FORM = "plain"
MOST_SHOTS = 8


class Questions(NamedTuple):
    """What is asked.

    Attributes:
      config: the run's resolved config.
      dataset: where it comes from.
      rows: rows of the split that are asked.
      examples: rows of train shown to each of them.
    """

    config: ConfigDict
    dataset: CompactDataset
    rows: Int[np.ndarray, " n"]
    examples: list[list[int]]

    @property
    def instances(self) -> list[Instance]:
        """The whole split."""
        return self.dataset.split(self.config.compact.split)

    def requests(self, traits: Traits, replies: Replies) -> Sequence[Request]:
        """One request per window.

        Raises:
          UserError: pictures for a model that reads none, or a picture is missing.
        """
        del replies
        compact = self.config.compact
        if compact.images != "none" and not traits.reads_images:
            raise UserError(f"{self.config.model.spec} reads no pictures; ask with images=none.")
        train = self.dataset.split("train")
        targets = [one["narrations"][TARGET] for one in train]
        options = tuple(name for name, _ in Counter(targets).most_common())
        instances = self.instances
        return [
            self._request(instances[row], [train[e] for e in chosen], options)
            for row, chosen in zip(self.rows.tolist(), self.examples, strict=True)
        ]

    def _request(
        self, query: Instance, examples: Sequence[Instance], options: tuple[str, ...]
    ) -> Request:
        config = self.config
        decoding = config.decoding
        shown = [self._shown(one)._replace(target=one["narrations"][TARGET]) for one in examples]
        turns = few_shot_turns(
            config.compact.template, shown, self._shown(query), chat=config.compact.chat
        )
        facts = {
            "perfect": query["narrations"][TARGET],
            "text_only": query["narrations"][TARGET - 1],
            "options": options,
        }
        if examples:
            facts["copy"] = examples[-1]["narrations"][TARGET]
        return Request(
            item=query["key"],
            system="",
            turns=turns,
            decoding=Decoding(decoding.max_tokens, decoding.temperature, decoding.top_p, ("\n",)),
            seed=sample_seed(config.seed, query["key"]),
            raw=not config.compact.chat,
            facts=facts,
        )

    def _shown(self, instance: Instance) -> Shown:
        compact = self.config.compact
        pictures: tuple[Picture, ...] = ()
        if compact.images == "keyframes":
            folder = pathlib.Path(compact.frames)
            pictures = tuple(
                _key_frame(folder, clip) for clip in instance["narration_ids"][:TARGET]
            )
        return Shown(tuple(instance["narrations"][:TARGET]), pictures, None)


def make(config: ConfigDict) -> Benchmark:
    """The benchmark of a resolved config.

    Raises:
      UserError: no such data set or split, or a number of examples that there is no use for.
    """
    compact = config.compact
    if not 0 <= compact.shots <= MOST_SHOTS:
        raise UserError(f"config.compact.shots is {compact.shots}; give 0 to {MOST_SHOTS}.")
    dataset = locate_windows(config)
    instances = dataset.split(compact.split)
    count = min(config.limit or len(instances), len(instances))
    # Evenly spread, since neighbours are of one video.
    rows = np.arange(count) * len(instances) // count
    examples = choose_examples(
        dataset.split("train"),
        [instances[row] for row in rows.tolist()],
        compact.shots,
        selection=compact.selection,
        exclude=compact.exclude,
        seed=config.seed,
    )
    questions = Questions(config, dataset, rows, examples)

    def score(replies: Replies, traits: Traits) -> Scores:
        del traits
        return score_replies(questions, replies)

    stages = (Stage(GENERATE, "model", questions.requests),)
    return Benchmark("compact", dataset.info, stages, score, "video", metrics=("sacrebleu",))


def locate_windows(config: ConfigDict) -> CompactDataset:
    """The data set that `config.dataset.name` names; the world is built on first use."""
    folder, name = pathlib.Path(config.data_dir), config.dataset.name
    if name != WORLD:
        return open_compact(folder / name)
    from mmgen.data.worlds.kitchen_world import KitchenWorldSettings, build_kitchen_world

    settings = KitchenWorldSettings(data_seed=config.data_seed)
    root = world_folder(folder, name, settings)
    build_once(root, name, lambda: build_kitchen_world(root, settings))
    return open_compact(root)


def score_replies(questions: Questions, replies: Replies) -> Scores:
    """CompAct's metrics of the answers, with what the examples gave away."""
    split = questions.config.compact.split
    instances, rows = questions.instances, questions.rows
    answers = replies.get(GENERATE, {})
    texts = {
        row: read_narration(answers[instances[row]["key"]].text or "")
        for row in rows.tolist()
        if instances[row]["key"] in answers
    }
    if not texts:
        return Scores({}, [], [])
    context = make_context(questions.dataset, task="utterance", splits=(split,), form=FORM)
    asked = np.array(list(texts))
    unseen = questions.dataset.unseen(split)
    records = make_records(instances, unseen, "utterance", asked, list(texts.values()))
    metrics = dict(score_records(records, context, split))
    judged = Judge(context)(records)
    metrics |= _errors(records, judged, split)
    leaks = _leaks(questions, records)
    metrics |= leaks
    shown = [
        record
        | {"key": instances[row]["key"], "answer": answers[instances[row]["key"]].text}
        | {"em": int(em), "ca": int(ca)}
        for row, record, em, ca in zip(asked.tolist(), records, judged.em, judged.ca, strict=True)
    ]
    tables = [
        quality_table(metrics, questions.config, len(records)),
        leak_table(leaks, questions.config),
    ]
    return Scores(metrics, tables, shown, measures=("em", "ca"), cluster="video")


def _errors(records: Sequence[Record], judged: Judged, split: str) -> dict[str, float]:
    """EM, CA and unusable answers with their standard errors, by video."""
    empty = np.array([not record["prediction"] for record in records], float)
    values = {"em": judged.em.astype(float), "ca": judged.ca.astype(float), "unusable": empty}
    metrics: dict[str, float] = {}
    for name, value in values.items():
        metrics |= as_metrics(f"{split}/{name}", estimate(value, judged.video))
    return metrics


def _leaks(questions: Questions, records: Sequence[Record]) -> dict[str, float]:
    train, instances = questions.dataset.split("train"), questions.instances
    queries = [instances[row] for row in questions.rows.tolist()]
    videos = np.array([query["video_id"] for query in queries])
    rates = leak_rates(train, queries, questions.examples)
    metrics: dict[str, float] = {}
    for name, leaked in rates.items():
        metrics |= as_metrics(f"leak/{name}", estimate(leaked.astype(float), videos))
    # Records may be fewer than queries, where answers are missing.
    told = dict(zip(questions.rows.tolist(), rates["answer_shown"].tolist(), strict=True))
    right = {r["id"]: r["prediction"] == " ".join(r["target"].split("_")) for r in records}
    for name, wanted in (("shown", True), ("not_shown", False)):
        part = [row for row in right if told[row] == wanted]
        values = np.array([right[row] for row in part], float)
        own = np.array([instances[row]["video_id"] for row in part])
        metrics |= as_metrics(f"leak/em_answer_{name}", estimate(values, own))
    return metrics


def _key_frame(folder: pathlib.Path, clip: str) -> Picture:
    for ending in (".jpg", ".jpeg", ".png"):
        path = folder / f"{clip}{ending}"
        if path.is_file():
            return Picture(str(path))
    raise UserError(
        f"there is no key frame of clip {clip} in config.compact.frames={folder}; put it there as "
        f"{clip}.jpg, or ask with images=none."
    )
