"""What a prompted benchmark is: stages that ask, and a function that scores the replies.

    generate   stages asked of the model under test, in order
    judge      stages asked of a judge about its replies
    score      from the stored replies alone

A stage's requests may depend on the replies of the stages before it (a second step of a chain of
thought, a judge's question); they are rendered again whenever they are needed, so that scoring
needs neither model nor judge, only what they are (`Traits`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mmgen.prompting.requests import Answer, Backend, Request
from mmgen.report.tables import Table

Replies = Mapping[str, Mapping[str, Answer]]
"""Stage -> item -> answer. Errors are no answers: such an item is missing."""


class Traits(NamedTuple):
    """What a benchmark may know of a backend; stored beside its answers.

    Attributes:
      identity: see `Backend`.
      reads_images, paints, scores_choices: what it can be asked for.
    """

    identity: Mapping[str, Any]
    reads_images: bool
    paints: bool
    scores_choices: bool

    @staticmethod
    def of(backend: Backend) -> "Traits":
        """Those of an open backend."""
        return Traits(
            dict(backend.identity), backend.reads_images, backend.paints, backend.scores_choices
        )


class Stage(NamedTuple):
    """Requests that can be asked together.

    Attributes:
      name: "generate", "analysis", "judge_object", ...; names its replies.
      role: whom it asks: the model under test (`config.model`) or the judge (`config.judge`).
      requests: `(traits of whom it asks, replies so far) -> requests`, a pure function; items are
        unique. An item whose earlier reply is missing is left out. UserError if the backend cannot
        be asked so.
    """

    name: str
    role: Literal["model", "judge"]
    requests: Callable[[Traits, Replies], Sequence[Request]]


class Scores(NamedTuple):
    """What the replies are worth.

    Attributes:
      metrics: flat names -> numbers for summary.json; of a share `x` also `x/se`, `x/low`,
        `x/high`, `x/n` (see `mmgen.prompting.estimates`).
      tables: for the report, ours beside the published values.
      records: one JSON object per item, with "id" first; scores of two runs are compared by them.
      measures: fields of the records that are scores; what `mmgen.compare` compares.
      part: field that divides the records into parts compared apart, "" for none.
      cluster: field whose equal values are a cluster of the bootstrap.
    """

    metrics: dict[str, float]
    tables: Sequence[Table]
    records: Sequence[Mapping[str, Any]]
    measures: tuple[str, ...] = ()
    part: str = ""
    cluster: str = "id"


class Benchmark(NamedTuple):
    """A benchmark over the items of one data set with one choice of prompts.

    Attributes:
      name: "macid", "cobsat" or "compact".
      dataset: facts of the data: name, fingerprint, licences, world (bool), and what else a
        report should say.
      stages: in the order in which they are asked.
      score: `(replies, traits of the model) -> Scores`; must not need the models.
      cluster: what a cluster of the bootstrap is, in words ("group", "video", ...).
      metrics: packages that the scores rest on, whose versions are recorded.
    """

    name: str
    dataset: Mapping[str, Any]
    stages: tuple[Stage, ...]
    score: Callable[[Replies, Traits], Scores]
    cluster: str
    metrics: tuple[str, ...] = ()
