"""Tables of a few-shot run beside the published ones."""

from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from mmgen.report.published import published
from mmgen.report.tables import Cell, Column, Table
from mmgen.settings.prompting import short_name

TABLES = {"IDEFICS": "table9", "LLaMA2": "table10", "Otter": "table13"}
"""Published model -> its table by number of examples (test split, compositional)."""

BASELINES = ("recent", "copy_last", "put_down", "bigram", "nearest")


def quality_table(metrics: Mapping[str, float], config: ConfigDict, items: int) -> Table:
    """BLEU in both forms, EM and CA: this run, what needs no model, and the published values."""
    compact = config.compact
    split = compact.split
    name = f"{short_name(config.model.spec)}, {compact.shots}-shot"
    rows: list[list[Cell]] = [[name, *_scores(metrics, split), items]]
    for part in ("unseen", "seen"):
        count = metrics.get(f"{split}/{part}/n")
        if count:
            shown = f"{name}, {part} compounds"
            rows.append([shown, *_scores(metrics, f"{split}/{part}"), int(count)])
    own = len(rows)
    for baseline in BASELINES:
        if f"{split}/baseline/{baseline}/em" in metrics:
            whole = metrics.get(f"{split}/baseline/{baseline}/n")
            cells = _scores(metrics, f"{split}/baseline/{baseline}")
            rows.append([f"baseline {baseline}", *cells, None if whole is None else int(whole)])
    for model, table in TABLES.items():
        rows += [_published(model, row) for row in _rows(table, compact.shots)]
    columns = (
        Column("model"),
        Column("BLEU plain", 2, "high"),
        Column("BLEU joined", 2, "high"),
        Column("EM", 2, "high"),
        Column("EM, SE", 2),
        Column("CA", 2, "high"),
        Column("CA, SE", 2),
        Column("items"),
    )
    note = (
        "Per cent. Language models write plain words, trained ones joined words: compare BLEU "
        "within one form. Baselines are of the whole split."
    )
    return Table(f"CompAct, {split}", columns, rows, (note,), unranked=len(rows) - own)


def leak_table(leaks: Mapping[str, float], config: ConfigDict) -> Table:
    """What the examples give away, and the score where they do and where they do not."""
    meaning = {
        "leak/answer_shown": "prompts whose examples contain the answer's narration",
        "leak/answer_is_target": "... as an example's own target",
        "leak/clip_shared": "prompts with an example that shares a clip with the query",
        "leak/em_answer_shown": "EM where the answer's narration is shown",
        "leak/em_answer_not_shown": "EM where it is not",
    }
    rows: list[list[Cell]] = [
        [text, 100 * leaks[key], _percent(leaks.get(f"{key}/se")), int(leaks[f"{key}/n"])]
        for key, text in meaning.items()
        if key in leaks
    ]
    compact = config.compact
    title = f"what the examples tell ({compact.selection}, exclude {compact.exclude})"
    columns = (Column("share"), Column("%", 1), Column("SE", 1), Column("items"))
    return Table(title, columns, rows if compact.shots else [])


def _scores(metrics: Mapping[str, float], prefix: str) -> list[Cell]:
    keys = ("bleu1_plain", "bleu1_joined", "em", "em/se", "ca", "ca/se")
    return [_percent(metrics.get(f"{prefix}/{key}")) for key in keys]


def _rows(table: str, shots: int) -> Sequence[Mapping]:
    return [row for row in published("compact")[table] if row["shots"] == str(shots)]


def _published(model: str, row: Mapping) -> list[Cell]:
    cells = [row["bleu"], None, row["em"], row.get("em_sd"), row["ca"], row.get("ca_sd")]
    return [f"{model}, {row['shots']}-shot, published (sd)", *cells, None]


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
