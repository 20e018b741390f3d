"""From judgements to scores: each sample right or wrong in several ways, missing ones wrong."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.prompting.cobsat.asking import Asking
from mmgen.prompting.cobsat.samples import Sample
from mmgen.prompting.estimates import Estimate, as_metrics, estimate
from mmgen.prompting.judges.base import NOTHING, Judgement


class Scored(NamedTuple):
    """One sample.

    Attributes:
      item: its name.
      sample: what was asked.
      judgement: what its answer was judged to show, of several the most frequent; None without one.
      answered: is there an output?
    """

    item: str
    sample: Sample
    judgement: Judgement | None
    answered: bool

    @property
    def attribute(self) -> bool:
        """Is the attribute right?"""
        seen = self.judgement
        return seen is not None and seen.attribute == self.sample.target.attribute

    @property
    def object(self) -> bool:
        """Is the object right?"""
        return self.judgement is not None and self.judgement.object == self.sample.target.object

    @property
    def joint(self) -> bool:
        """Are both?"""
        return self.attribute and self.object

    @property
    def textual(self) -> bool:
        """Is it what the text names (section 5.4)?"""
        return self.attribute if self.sample.task.given == "attribute" else self.object

    @property
    def visual(self) -> bool:
        """Is it what the images share?"""
        return self.object if self.sample.task.given == "attribute" else self.attribute

    @property
    def misled(self) -> bool:
        """Does it show the misleading word of the query?"""
        if self.judgement is None or not self.sample.misleading:
            return False
        return getattr(self.judgement, self.sample.task.latent) == self.sample.misleading[-1]

    @property
    def copied(self) -> bool:
        """Does it show what a demonstration shows?"""
        seen = self.judgement
        return seen is not None and (seen.attribute, seen.object) in self.sample.demonstrations

    @property
    def unread(self) -> bool:
        """Is there a judgement that says nothing of one kind or both?"""
        return self.judgement is not None and self.judgement.unread > 0

    @property
    def missing(self) -> bool:
        """Is there no output, or none that was judged?"""
        return not self.answered or self.judgement is None


MEASURES: Mapping[str, Callable[[Scored], bool]] = {
    name: getattr(Scored, name).fget
    for name in (
        "joint",
        "object",
        "attribute",
        "textual",
        "visual",
        "copied",
        "misled",
        "missing",
        "unread",
    )
}
"""Name of a share -> does a sample count?"""


def score_items(
    asking: Asking, answered: Sequence[str], judged: Mapping[str, Judgement]
) -> list[Scored]:
    """Every sample of the run, in its order; missing ones too.

    Args:
      answered: names of the requests that have an output.
      judged: name of a request -> judgement.
    """
    there = set(answered)
    return [
        Scored(
            item,
            sample,
            majority([judged[name] for name in asking.ballots(item) if name in judged]),
            any(name in there for name in asking.ballots(item)),
        )
        for item, sample in asking.samples.items()
    ]


def majority(judgements: Sequence[Judgement]) -> Judgement | None:
    """The judgement of the most frequent pair (self-consistency), the first of equals.

    Pairs in which something was not seen only count where there is no other.
    """
    whole = [one for one in judgements if NOTHING not in (one.attribute, one.object)]
    candidates = whole or list(judgements)
    if not candidates:
        return None
    counts = Counter((one.attribute, one.object) for one in candidates)
    best = max(counts, key=counts.__getitem__)
    return next(one for one in candidates if (one.attribute, one.object) == best)


def values(scored: Sequence[Scored], measure: str) -> Float[np.ndarray, " n"]:
    """A measure of every sample, 0 or 1."""
    return np.array([MEASURES[measure](one) for one in scored], np.float64)


def clusters(scored: Sequence[Scored]) -> Int[np.ndarray, " n"]:
    """The (query, latent) cell of every sample; one across tasks, which all share the records."""
    return np.array([1000 * one.sample.query + one.sample.latent for one in scored], np.int64)


def groups(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Name -> samples: all, object and attribute inference, every task."""
    found = {"all": list(scored)}
    for latent in ("object", "attribute"):
        found[f"{latent}_inference"] = [s for s in scored if s.sample.task.latent == latent]
    for one in scored:
        found.setdefault(one.sample.task.name, []).append(one)
    return {name: members for name, members in found.items() if members}


def estimates(scored: Sequence[Scored], *, misleading: bool) -> dict[str, dict[str, Estimate]]:
    """Group -> measure -> estimate.

    Args:
      misleading: were there misleading words? Otherwise none can be followed.
    """
    measures = [name for name in MEASURES if misleading or name != "misled"]
    return {
        group: {
            measure: estimate(values(members, measure), clusters(members)) for measure in measures
        }
        for group, members in groups(scored).items()
    }


def metrics(found: Mapping[str, Mapping[str, Estimate]]) -> dict[str, float]:
    """Flat metrics: `joint`, `Color-I/joint`, ... with their errors."""
    flat: dict[str, float] = {}
    for group, measures in found.items():
        for measure, one in measures.items():
            name = measure if group == "all" else f"{group}/{measure}"
            flat |= as_metrics(name, one)
    return flat


def records(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """One JSON object per sample."""
    return [_record(one) for one in scored]


def _record(one: Scored) -> dict[str, Any]:
    sample, seen = one.sample, one.judgement
    theme = sample.task.theme
    record: dict[str, Any] = {
        "id": one.item,
        "task": sample.task.name,
        "cell": [sample.query, sample.latent],
        "target": [
            theme.attributes[sample.target.attribute],
            theme.objects[sample.target.object],
        ],
        "seen": None
        if seen is None
        else [
            theme.attributes[seen.attribute] if seen.attribute >= 0 else None,
            theme.objects[seen.object] if seen.object >= 0 else None,
        ],
        **{name: int(count(one)) for name, count in MEASURES.items()},
    }
    if seen is not None and seen.similarity is not None:
        record["similarity"] = [round(value, 4) for value in seen.similarity]
    return record
