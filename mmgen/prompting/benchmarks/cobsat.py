"""CoBSAT as a prompted benchmark; see `mmgen.prompting.cobsat` and `mmgen.prompting.judges`."""

import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.prompting.benchmark import Benchmark, Replies, Scores, Stage, Traits
from mmgen.prompting.cobsat import scoring, tables
from mmgen.prompting.cobsat.asking import Asking, item_name, needed_images
from mmgen.prompting.cobsat.auditing import audit_judge, known_subjects
from mmgen.prompting.cobsat.dataset import CobsatDataset
from mmgen.prompting.cobsat.locate import locate_images
from mmgen.prompting.cobsat.records import read_prompt_file
from mmgen.prompting.cobsat.rendering import Style, check_style
from mmgen.prompting.cobsat.samples import (
    Sample,
    make_samples,
    select_demonstrations,
    trigram_counts,
)
from mmgen.prompting.cobsat.tasks import Task, choose_tasks
from mmgen.prompting.judges.base import Judge, Subject, judge_kind, make_judge
from mmgen.prompting.requests import Answer, Decoding, Request
from mmgen.prompting.thoughts import without_thinking
from mmgen.settings.prompting import short_name

ANALYSIS, GENERATE = "analysis", "generate"
AUDIT = "audit_"
"""Before a judge's stage: the same question about images whose labels are known."""


def make(config: ConfigDict) -> Benchmark:
    """The benchmark of a resolved config.

    Raises:
      UserError: no such data set or task, an image that is missing or does not decode, or choices
        that do not go together.
    """
    cobsat = config.cobsat
    folder = pathlib.Path(config.data_dir)
    dataset = locate_images(folder, config.dataset.name, config.data_seed, cobsat.size)
    tasks = choose_tasks(cobsat.task, dataset.tasks)
    asking = make_asking(config, dataset, tasks)
    judge = make_judge(config.judge.spec, {"parser": cobsat.parser, "cut": cobsat.judge_cut})
    known = known_subjects(dataset, tasks, cobsat.output) if cobsat.audit else []
    stages = [Stage(GENERATE, "model", _generate(asking, config.model.spec))]
    if cobsat.prompt == "cot":
        stages.insert(0, Stage(ANALYSIS, "model", _analyse(asking, config.model.spec)))
    for name in judge.stages:
        stages.append(Stage(name, "judge", _judge(config, asking, judge, name)))
        if known:
            stages.append(Stage(AUDIT + name, "judge", _audit(config, judge, name, known)))

    def score(replies: Replies, traits: Traits) -> Scores:
        del traits
        return score_replies(config, asking, judge, known, replies)

    return Benchmark("cobsat", dataset.info, tuple(stages), score, "(query, latent) cell")


def make_asking(config: ConfigDict, dataset: CobsatDataset, tasks: Sequence[Task]) -> Asking:
    """What is asked."""
    cobsat = config.cobsat
    records = read_prompt_file(pathlib.Path(cobsat.prompts)) if cobsat.prompts else None
    samples: dict[str, Sample] = {}
    for task in tasks:
        for sample in make_samples(
            task,
            cobsat.shots,
            cobsat.split,
            count=config.limit,
            seed=cobsat.prompt_seed,
            records=records,
        ):
            chosen = select_demonstrations(sample, cobsat.selection, trigram_counts)
            samples[item_name(chosen)] = chosen
    style = Style(
        prompt_type=cobsat.prompt,
        output=cobsat.output,
        model=cobsat.instructions,
        table=cobsat.table,
        leak=cobsat.leak,
        words=cobsat.words,
    )
    everything = list(samples.values())
    check_style(style, everything)
    if cobsat.votes < 1 or (cobsat.votes > 1 and config.decoding.temperature == 0):
        raise UserError(
            f"config.cobsat.votes is {cobsat.votes}: several answers to one prompt need "
            "temperature= above 0, and one is the least."
        )
    if cobsat.prompt == "caption":
        for theme, cell in needed_images(everything):
            dataset.images.caption(theme, cell)
    else:
        dataset.images.verify(needed_images(everything))
    decoding = Decoding(
        max_tokens=config.decoding.max_tokens,
        temperature=config.decoding.temperature,
        top_p=config.decoding.top_p,
    )
    thought = decoding._replace(max_tokens=cobsat.thought_tokens)
    return Asking(dataset, samples, style, decoding, thought, cobsat.votes, config.seed)


def score_replies(
    config: ConfigDict,
    asking: Asking,
    judge: Judge,
    known: Sequence[Subject],
    replies: Replies,
) -> Scores:
    """Metrics, tables and records."""
    cobsat = config.cobsat
    outputs = replies.get(GENERATE, {})
    judged = judge.read(replies, subjects_of(asking, outputs))
    scored = scoring.score_items(asking, list(outputs), judged)
    found = scoring.estimates(scored, misleading=cobsat.prompt == "misleading")
    metrics = scoring.metrics(found)
    label = short_name(config.model.spec)
    shown = [
        tables.score_table(
            label,
            found,
            asking.style,
            cobsat.shots,
            cobsat.split,
            tuned=bool(config.model.adapter),
        ),
        tables.chance_table(scored, cobsat.prompt),
    ]
    metrics |= _similarity(scored)
    if known:
        audits = audit_judge(list(known), judge.read(_audit_replies(judge, replies), known))
        shown.append(tables.audit_table(audits, found))
        for kind, one in audits.items():
            metrics[f"judge/{kind}/accuracy"] = one.accuracy.mean
            metrics[f"judge/{kind}/kappa"] = one.kappa.mean
    return Scores(
        metrics=metrics,
        tables=shown,
        records=scoring.records(scored),
        measures=tuple(scoring.MEASURES),
        part="task",
        cluster="cell",
    )


def subjects_of(asking: Asking, outputs: Mapping[str, Answer]) -> list[Subject]:
    """The outputs that there are, to be judged."""
    subjects = []
    for item, sample in asking.samples.items():
        for name in asking.ballots(item):
            if name not in outputs:
                continue
            answer = outputs[name]
            is_image = asking.style.output == "image"
            subjects.append(
                Subject(
                    item=name,
                    theme=sample.task.theme,
                    picture=answer.picture if is_image else None,
                    text=None if is_image else without_thinking(answer.text or ""),
                    target=sample.target,
                )
            )
    return subjects


def _similarity(scored: Sequence[scoring.Scored]) -> dict[str, float]:
    """Mean of CLIP's similarity to the right label, a missing output counting as 0."""
    found = [one.judgement.similarity for one in scored if one.judgement is not None]
    both = [similarity[2] for similarity in found if similarity is not None]
    return {"clip_similarity": sum(both) / len(scored)} if both else {}


def _analyse(asking: Asking, spec: str):
    def requests(traits: Traits, replies: Replies) -> Sequence[Request]:
        del replies
        _check_model(asking, traits, spec)
        return asking.analysis_requests()

    return requests


def _generate(asking: Asking, spec: str):
    def requests(traits: Traits, replies: Replies) -> Sequence[Request]:
        _check_model(asking, traits, spec)
        if asking.style.prompt_type == "cot":
            return asking.requests(dict(replies[ANALYSIS]))
        return asking.requests()

    return requests


def _judge(config: ConfigDict, asking: Asking, judge: Judge, name: str):
    def requests(traits: Traits, replies: Replies) -> Sequence[Request]:
        _check_judge(asking.style.output, traits, config.judge.spec)
        return judge.requests(name, subjects_of(asking, replies[GENERATE]), config.seed)

    return requests


def _audit(config: ConfigDict, judge: Judge, name: str, known: Sequence[Subject]):
    def requests(traits: Traits, replies: Replies) -> Sequence[Request]:
        del replies
        _check_judge(config.cobsat.output, traits, config.judge.spec)
        return judge.requests(name, known, config.seed)

    return requests


def _audit_replies(judge: Judge, replies: Replies) -> dict[str, Mapping[str, Answer]]:
    return {name: replies.get(AUDIT + name, {}) for name in judge.stages}


def _check_model(asking: Asking, traits: Traits, spec: str) -> None:
    style = asking.style
    if style.output == "image" and not traits.paints:
        raise UserError(f"{spec} paints no images; ask with output=text.")
    shows = style.prompt_type != "caption" and any(s.shots for s in asking.samples.values())
    if shows and not traits.reads_images:
        raise UserError(f"{spec} reads no images; ask with prompt=caption.")


def _check_judge(output: str, traits: Traits, spec: str) -> None:
    if output == "image" and not traits.reads_images:
        raise UserError(f"judge={spec} reads no images, which output=image needs.")
    if judge_kind(spec) == "clip" and not traits.scores_choices:
        raise UserError(f"judge={spec} is no CLIP model.")
