"""Table 15: right verb, wrong noun. Is the compound that was predicted instead a known one?

The paper gives "the percentage of misclassified nouns for correctly predicted verbs" that are
compounds of train (about 10 %) and of test (about 8 %) without saying of what. Of the failures
themselves far more are compounds of train, so both denominators are reported:

  failure/items, failure/share            right verb and wrong noun: how many, and of all items
  failure/train_ratio, failure/split_ratio    of them, those whose (verb, predicted noun) is a
                                          target compound of train, or of the split itself
  failure/train_of_all, failure/split_of_all  the same of all items
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmgen.compact.judging import Judged
from mmgen.compact.parsing import Parsed
from mmgen.evaluation.predictions import Record


def failure_ratios(
    records: Sequence[Record], judged: Judged, context: Mapping[str, Any], split: str
) -> dict[str, float]:
    """The ratios above; compounds are strings or classes, as those of the data set."""
    compounds = context["compounds"]
    known = {name: set(map(tuple, compounds.get(name, ()))) for name in ("train", split)}
    by_class = context["dataset"]["compounds"] == "class"
    failures: list[tuple[Any, Any]] = []
    for found, record in zip(judged.found, records, strict=True):
        ours, true = _compounds(found, record, by_class)
        if found.complete and ours[0] == true[0] and ours[1] != true[1]:
            failures.append(ours)
    scores = {
        "failure/items": float(len(failures)),
        "failure/share": len(failures) / len(records),
    }
    for name, place in (("train", "train"), ("split", split)):
        count = sum(compound in known[place] for compound in failures)
        scores[f"failure/{name}_of_all"] = count / len(records)
        if failures:
            scores[f"failure/{name}_ratio"] = count / len(failures)
    return scores


def _compounds(
    found: Parsed, record: Record, by_class: bool
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """(verb, noun) of the prediction and of the target."""
    if by_class:
        return (found.verb_class, found.noun_class), (record["verb_class"], record["noun_class"])
    return (found.verb, found.noun), (record["verb"], record["noun"])
