"""What a MACID csv holds, beside what was published of MACID (Tables 1 to 3 of the paper)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mmgen.data.macid.groups import DISTANCES, PLACES, Group
from mmgen.data.macid.patterns import (
    PATTERNS,
    concept_oracle,
    expected_accuracy,
    most_common_verb,
    odd_verb,
    pattern_of,
    same_verb_balanced_accuracy,
    shares_verb,
    verbs_of,
)
from mmgen.report.published import published
from mmgen.report.tables import Cell, Column, Table

CHANCE = 1 / len(PLACES)


class Verbs(NamedTuple):
    """The groups whose verbs are known, with them."""

    groups: list[Group]
    verbs: list[tuple[str, ...]]


def known_verbs(groups: Sequence[Group], language: str) -> Verbs:
    """Groups all of whose verbs are annotated or in the lexicon."""
    found = [(group, verbs_of(group, language)) for group in groups]
    known = [(group, verbs) for group, verbs in found if verbs is not None]
    return Verbs([group for group, _ in known], [verbs for _, verbs in known])


def data_facts(groups: Sequence[Group], language: str) -> dict[str, Any]:
    """Everything the tables below say, as JSON: counts, distributions, scores of blind rules."""
    sentences = Counter(text for group in groups for text in group.sentences[language])
    known = known_verbs(groups, language)
    both = list(zip(known.groups, known.verbs, strict=True))
    concepts = {concept for group in groups for concept in group.concepts or ()}
    return {
        "groups": len(groups),
        "sentences": len(PLACES) * len(groups),
        "captions": len(sentences),
        "uses": {str(n): c for n, c in sorted(Counter(sentences.values()).items())},
        "max_uses": max(sentences.values()),
        "concepts": len(concepts) or None,
        "videos": len({video for group in groups for video in group.videos} - {""}),
        "languages": list(groups[0].sentences),
        "positions": {str(p): sum(g.intruder == p for g in groups) for p in PLACES},
        "distances": {d: n for d in DISTANCES if (n := sum(g.distance == d for g in groups))},
        "verbs_unknown": len(groups) - len(known.groups),
        "verbs": dict(Counter(v for _, verbs in both for v in verbs).most_common()),
        "patterns": {p: sum(pattern_of(verbs) == p for _, verbs in both) for p in PATTERNS},
        "shared_by_pattern": {
            p: sum(pattern_of(verbs) == p and shares_verb(verbs, g.intruder) for g, verbs in both)
            for p in PATTERNS
        },
        "shared_verb": sum(shares_verb(verbs, g.intruder) for g, verbs in both),
        "rules": rule_scores(groups, language),
    }


def rule_scores(groups: Sequence[Group], language: str) -> dict[str, Any]:
    """Expected accuracy of rules that need no understanding, and of the annotated concepts."""

    def by_pattern(rule: Callable[[tuple[str, ...]], Sequence[int]]) -> dict[str, float]:
        parts: dict[str, list[Group]] = {}
        known = known_verbs(groups, language)
        for group, verbs in zip(known.groups, known.verbs, strict=True):
            parts.setdefault(pattern_of(verbs), []).append(group)
        return {
            name: expected_accuracy(parts[name], language, rule)
            for name in PATTERNS
            if name in parts
        }

    return {
        "chance": CHANCE,
        "constant": {str(p): sum(g.intruder == p for g in groups) / len(groups) for p in PLACES},
        "odd_verb": expected_accuracy(groups, language, odd_verb),
        "odd_verb_by_pattern": by_pattern(odd_verb),
        "most_common_verb": expected_accuracy(groups, language, most_common_verb),
        "most_common_verb_by_pattern": by_pattern(most_common_verb),
        "concept_oracle": concept_oracle(groups),
        "pairs": 6 * len(groups),
        "same_verb_balanced_accuracy": same_verb_balanced_accuracy(groups, language),
    }


def data_tables(facts: dict[str, Any], name: str) -> list[Table]:
    """Tables of `data_facts`.

    Args:
      facts: see `data_facts`.
      name: of the data set.
    """
    return [
        _details(facts, name),
        _verbs(facts),
        _patterns(facts),
        _balance(facts),
        _rules(facts),
    ]


def _details(facts: dict[str, Any], name: str) -> Table:
    paper = {row["detail"]: row["value"] for row in published("macid")["table1"]}
    keys = {
        "groups of 4 sentences": "groups",
        "distinct captions": "captions",
        "uses of a caption, at most": "max_uses",
        "action concepts": "concepts",
        "intruder's verb occurs elsewhere": "shared_verb",
    }
    rows: list[list[Cell]] = [[words, facts[key], paper.get(words)] for words, key in keys.items()]
    uses = ", ".join(f"{count} {times} x" for times, count in facts["uses"].items())
    rows += [
        ["captions by uses", uses, None],
        ["videos", facts["videos"], None],
        ["languages", ", ".join(facts["languages"]), None],
    ]
    notes = (
        (f"{facts['verbs_unknown']} groups hold a sentence whose verb is not in the lexicon.",)
        if facts["verbs_unknown"]
        else ()
    )
    columns = (Column("Table 1, general details"), Column(name), Column("MACID, published"))
    return Table("data", columns, rows, notes)


def _verbs(facts: dict[str, Any]) -> Table:
    total = sum(facts["verbs"].values())
    rows: list[list[Cell]] = [[v, n, 100 * n / total] for v, n in facts["verbs"].items()]
    columns = (Column("Table 2, verb"), Column("sentences"), Column("%", 1))
    note = "The paper's frequencies are not in the text that we hold."
    return Table("verbs", columns, rows, (note,))


def _patterns(facts: dict[str, Any]) -> Table:
    rules = facts["rules"]
    rows: list[list[Cell]] = [
        [
            pattern,
            count,
            facts["shared_by_pattern"][pattern],
            rules["odd_verb_by_pattern"].get(pattern),
            rules["most_common_verb_by_pattern"].get(pattern),
        ]
        for pattern, count in facts["patterns"].items()
    ]
    whole = [rules["odd_verb"], rules["most_common_verb"]]
    rows.append(["all", sum(facts["patterns"].values()), facts["shared_verb"], *whole])
    columns = (
        *(Column(name) for name in ("Table 3, pattern", "groups", "intruder's verb shared")),
        Column("odd verb", 2),
        Column("most common verb", 2),
    )
    note = "Last columns: accuracy of choosing by the verbs alone. Published: 62 shared of 100."
    return Table("verb patterns", columns, rows, (note,))


def _balance(facts: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [f"intruder at {place}", count] for place, count in facts["positions"].items()
    ]
    rows += [[f"similarity {name}", count] for name, count in facts["distances"].items()]
    return Table("balance", (Column("condition"), Column("groups")), rows)


def _rules(facts: dict[str, Any]) -> Table:
    rules = facts["rules"]
    rows: list[list[Cell]] = [
        ["concepts as annotated", rules["concept_oracle"]],
        ["chance", rules["chance"]],
        *([f"always {place}", share] for place, share in rules["constant"].items()),
        ["odd verb", rules["odd_verb"]],
        ["most common verb", rules["most_common_verb"]],
        [
            f"{rules['pairs']} pairs: same verb, same concept (balanced)",
            rules["same_verb_balanced_accuracy"],
        ],
    ]
    return Table("rules without understanding", (Column("rule"), Column("accuracy", 2)), rows)
