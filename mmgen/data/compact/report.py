"""The build report as Markdown: every count beside the published one."""

from collections.abc import Iterable, Sequence
from typing import Any

from mmgen.data.compact.heuristics import PAPER
from mmgen.data.compact.leakage import MEANING

TRIVIAL = {
    "mrh_noun_em": "most recent noun, EM",
    "mrh_noun_ca": "most recent noun, CA",
    "mrh_verb_em": "most recent verb, EM",
    "mrh_verb_ca": "most recent verb, CA",
    "majority_verb_em": "majority verb, EM",
    "majority_verb_ca": "majority verb class, CA",
    "seen_string": "target's verb and noun are a target of train",
    "seen_class": "target's classes are a target of train",
}
"""Score -> what it is, in the order of the tables."""

DIVERGENCES = {"atom_divergence": "D_A", "compound_divergence": "D_C"}


def report_text(facts: dict[str, Any]) -> str:
    """The report of `facts`, see `mmgen.data.compact.facts`; the same facts, the same text."""
    parts = [
        [f"# {facts['name']}", ""],
        _choices(facts),
        _csv(facts["csv"]),
        _windows(facts["windows"]),
        _rules(facts["windows"], facts["rules"]) if facts["published"] else [],
        _split(facts["split"], facts["published"]),
        _scores(facts["split"], facts["seeds"], facts["published"], _heldout(facts["settings"])),
        _leakage(facts["split"]["leakage"]),
        _golden(facts["split"]["golden"]) if facts["published"] else [],
        _features(facts["features"]),
        _vocabulary(facts["vocabulary"]),
        _figures(facts["figures"]),
    ]
    return "\n".join(line for part in parts for line in part)


def _paragraph(*sentences: str) -> list[str]:
    return [" ".join(sentences), ""]


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return [*lines, ""]


def _beside(
    head: Sequence[str], last: str, rows: Iterable[Sequence[Any]], published: bool
) -> list[str]:
    """A table whose last column holds published values, without it where there are none."""
    return _table((*head, last), rows) if published else _table(head, [row[:-1] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _choices(facts: dict[str, Any]) -> list[str]:
    rows = [(f"`{name}`", str(value)) for name, value in facts["settings"].items()]
    return [
        *_paragraph(
            f"Seed {facts['data_seed']}.", "Percentages are of windows unless it is said of what."
        ),
        *_table(("setting", "value"), rows),
    ]


def _csv(facts: dict[str, Any]) -> list[str]:
    foreign = ", ".join(f"{count:,} {name}s" for name, count in facts["foreign"].items())
    short = facts["short_videos"]
    lines = [
        "## Clips",
        "",
        *_paragraph(
            f"{facts['rows']:,} rows, {facts['clips']:,} clips of {facts['videos']:,} videos;",
            f"the text of {facts['guessed']:,} clips is a guess.",
            f"Not in the class that the csv gives them, by the class lists: {foreign}.",
        ),
    ]
    if short:
        lines += _paragraph(
            f"{len(short)} videos have fewer than four clips and give no window:",
            f"{', '.join(short)}.",
        )
    if facts["skipped"]:
        rows = [
            (kind, count, facts["first_faults"][kind]) for kind, count in facts["skipped"].items()
        ]
        lines += ["Skipped rows; no window reaches across them.", ""]
        lines += _table(("fault", "rows", "the first"), rows)
    return lines


def _windows(facts: dict[str, Any]) -> list[str]:
    return ["## Windows", "", *_table(("asked", "windows left"), facts["funnel"].items())]


def _rules(facts: dict[str, Any], rules: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for rule in rules:
        scores = [rule["all_windows"] or {}, rule["heldout"] or {}]
        rows.append(
            (
                rule["order"],
                rule["distinct"],
                rule["shared"],
                rule["windows"],
                f"{100 * rule['of_paper']:.1f} %",
                *(" / ".join(_cell(s.get(f"mrh_{a}_{m}")) for m in ("em", "ca"))
                  for s in scores for a in ("noun", "verb")),
                "chosen" if rule["chosen"] else "",
            )
        )  # fmt: skip
    head = ("order", "distinct", "noun shared", "windows", "of 22,136")
    kinds = ("noun, all", "verb, all", "noun, held out", "verb, held out")
    return [
        *_paragraph(
            f"Published: {facts['paper']:,}; ours are {100 * facts['of_paper']:.1f} % of it.",
            f"{facts['with_guessed_text']:,} have a clip whose text is a guess.",
        ),
        *_paragraph(
            "Every reading of the two filters, with the Most Recent Heuristic (EM / CA) on all its",
            "windows and on the held-out pool of one split. Published on the test split:",
            f"{_published_mrh()}. The count alone proves nothing.",
        ),
        *_table((*head, *kinds, ""), rows),
    ]


def _published_mrh() -> str:
    return ", ".join(
        f"{atom} {' / '.join(_cell(PAPER[f'mrh_{atom}_{m}']) for m in ('em', 'ca'))}"
        for atom in ("noun", "verb")
    )


def _split(facts: dict[str, Any], published: bool) -> list[str]:
    sizes = [(name, count, facts["paper"]["sizes"][name]) for name, count in facts["sizes"].items()]
    lines = ["## Split", "", *_beside(("split", "windows"), "published", sizes, published)]
    search = facts.get("search")
    if search:
        lines += _paragraph(
            f"The search ends at D_A {search['atom_divergence']:.4f} and D_C",
            f"{search['compound_divergence']:.4f} on what it counts"
            f"{' (published: below .02 and above .6)' if published else ''}; the repair pass",
            f"replaced {search['replaced_by_repair']} windows.",
        )
    rows = [
        (
            name,
            f"{row['atom_divergence']:.4f}",
            f"{row['compound_divergence']:.4f}",
            row["atoms"],
            row["compounds"],
            row["atoms_missing"],
            row["compounds_shared"],
            f"{100 * row['targets_seen']:.1f} %",
        )
        for name, row in facts["divergences"].items()
    ]
    head = ("counted", "D_A", "D_C", "atoms", "compounds")
    more = ("held-out atoms not in train", "compounds in both", "held-out targets in train's")
    return [*lines, *_table((*head, *more), rows)]


def _heldout(settings: dict[str, Any]) -> str:
    return "test windows" if settings.get("validation") == "train" else "held-out pool"


def _scores(
    split: dict[str, Any], seeds: dict[str, Any], published: bool, heldout: str
) -> list[str]:
    paper = split["paper"]["scores"]
    columns = split["scores"]
    rows = [
        (words, *(column[name] for column in columns.values()), paper.get(name))
        for name, words in TRIVIAL.items()
    ]
    lines = [
        "## Scores without training",
        "",
        *_beside(("per cent", *columns), "published, test", rows, published),
    ]
    if seeds["failed"]:
        lines += _paragraph(
            f"No split that meets its goal with seeds {', '.join(seeds['failed'])}."
        )
    if not seeds["rows"]:
        return lines
    over = {
        name: seeds["summary"][name]
        for name in (*TRIVIAL, *DIVERGENCES)
        if name in seeds["summary"]
    }
    rows = [
        (
            (TRIVIAL | DIVERGENCES)[name],
            *(f"{row[key]:.4f}" if name in DIVERGENCES else row[key]
              for key in ("mean", "sd", "lowest", "highest")),
            paper.get(name),
        )
        for name, row in over.items()
    ]  # fmt: skip
    return [
        *lines,
        *_paragraph(f"The {heldout} over split seeds {seeds['seeds'][0]} to {seeds['seeds'][-1]}:"),
        *_beside(
            ("per cent", "mean", "sd", "lowest", "highest"), "published, test", rows, published
        ),
    ]


def _leakage(facts: dict[str, float]) -> list[str]:
    rows = [(words, facts[name]) for name, words in MEANING.items()]
    return ["## Leakage", "", *_table(("share", "per cent"), rows)]


def _golden(facts: Sequence[dict[str, Any]]) -> list[str]:
    if not facts:
        return []
    present = sum(one["present"] for one in facts)
    selected = [one for one in facts if one["split"]]
    agree = sum(one["agrees"] for one in selected)
    rows = [
        (one["key"], one["shown"], one["side"], one["present"], one["split"] or "not selected")
        for one in facts
    ]
    return [
        "## Windows that the paper shows",
        "",
        *_paragraph(
            f"{present} of {len(facts)} come out of the rules.",
            f"{len(selected)} are selected, {agree} of them on the published side.",
        ),
        *_table(("window", "shown in", "published side", "comes out", "here"), rows),
    ]


def _features(facts: dict[str, Any]) -> list[str]:
    if not facts:
        return []
    rows = [
        (
            name,
            " x ".join(map(str, row["shape"])),
            row["extractor"],
            row["clips"],
            row["absent"],
            row["missing"],
        )
        for name, row in facts.items()
    ]
    head = ("modality", "shape", "extractor", "clips", "without a feature", "not in the source")
    return ["## Features", "", *_table(head, rows)]


def _vocabulary(facts: dict[str, Any]) -> list[str]:
    rows = [
        (name, row["tokens"], f"{100 * row['share_of_target_tokens']:.2f} %")
        for name, row in facts["unknown"].items()
    ]
    return [
        "## Vocabulary",
        "",
        *_paragraph(
            f"{facts['train']:,} different tokens in train, {facts['train_targets']:,} in its",
            f"targets, {facts['all']:,} in all.",
            f"Targets have {facts['mean_target']:.2f} tokens on average and",
            f"{facts['longest_target']} at most.",
        ),
        *_table(("targets of", "tokens unknown to train", "of its target tokens"), rows),
    ]


def _figures(facts: dict[str, str]) -> list[str]:
    if not facts:
        return []
    lines = ["## Figures", ""]
    for name, words in facts.items():
        lines += [f"![{words}]({name})" if name.endswith(".png") else words, ""]
    return lines
