"""The report of one run: what it scored, beside everything that puts the score into proportion."""

from typing import Any

from etils import epath

from mmgen.core.workdir import Workdir
from mmgen.evaluation.context import Context, main_split, read_context
from mmgen.evaluation.predictions import PredictionTable
from mmgen.evaluation.scores import KINDS, SUBSET, composition_items, load_evaluations
from mmgen.metrics import compositional, ppl
from mmgen.report.tables import Cell, Column, Table, markdown

SHOWN_EXAMPLES = 6
"""Filled-in captions shown on each side, right and wrong."""

_SCORES = (Column(""), Column("log-PPL"), Column("BLEU-1", 2), Column("BLEU-2", 2))


def run_report(workdir: epath.PathLike) -> str:
    """The report of a finished run as Markdown, from the files of its workdir alone.

    Raises:
      UserError: the workdir has no summary yet.
    """
    summary = Workdir(workdir).read_json("summary.json")
    context = read_context(workdir)
    tables: list[Table] = [
        *(quality_table(summary["metrics"], split) for split in _splits(summary["metrics"])),
        forgetting_table(summary["metrics"], context["min_task_items"]),
        composition_table(summary["metrics"]),
        *few_items_table(workdir, context),
        *example_tables(workdir, context),
    ]
    return "\n".join(
        [heading(summary, context), *(markdown(table) for table in tables if table.rows)]
    )


def heading(summary: dict[str, Any], context: Context) -> str:
    """Name, data, size, memory and machine of the run, before any number."""
    world = context["dataset"]["world"]
    caveat = " (a built-in world: not comparable with published values)" if world else ""
    memory = summary.get("memory") or {}
    held = (
        f"{memory['capacity']:,} rows, {100 * memory['share']:.1f} % of the stream"
        if memory.get("capacity")
        else "none"
    )
    stream, device = summary.get("stream") or {}, summary.get("device") or {}
    information = stream.get("task_time_information")
    machine = f"{device.get('devices', '?')} x {device.get('kind', '?')}"
    facts = [
        ("data set", f"{summary['dataset']}{caveat}, fingerprint {summary['fingerprint'][:12]}"),
        ("profile", f"{summary['profile']}, seed {summary['seed']}, data {summary['data_seed']}"),
        ("model", f"{summary['parameters']:,} parameters{_small(summary)}"),
        ("stream", f"{summary['steps']:,} iterations{_information(information)}"),
        ("memory", held),
        ("machine", f"{machine}, {summary['wall_seconds']:,.0f} s"),
    ]
    lines = [f"## {summary['name']}", ""]
    return "\n".join([*lines, *(f"- {name}: {value}" for name, value in facts)]) + "\n"


def quality_table(metrics: dict[str, float], split: str) -> Table:
    """Perplexity and BLEU of a split between the optimum and the baselines."""

    def row(name: str, *keys: str) -> list[Cell]:
        log_ppl, *bleus = (metrics.get(f"{split}/{key}") for key in keys)
        return [name, log_ppl, *map(_percent, bleus), *[None] * (3 - len(keys))]

    ceiling = _percent(metrics.get(f"{split}/bleu2_ceiling"))
    rows: list[list[Cell]] = [
        row("this run", "log_ppl", "bleu1", "bleu2"),
        row("this run, without determiners", "log_ppl_no_determiners"),
        row("optimum", "optimum"),
        row("optimum of text alone", "optimum_text_only"),
        row("position x span-length unigram", *_baseline("span_unigram")),
        row("unigram", *_baseline("unigram")),
        ["a perfect prediction", None, 100.0, ceiling],
    ]
    known = [cells for cells in rows if any(cell is not None for cell in cells[1:])]
    return Table(f"{split} ({int(metrics[f'{split}/n']):,} items)", _SCORES, known)


def forgetting_table(metrics: dict[str, float], min_items: int) -> Table:
    """Forgetting under its three names, and transfer; a value that is undefined is a dash.

    Args:
      min_items: tasks with fewer items are left out.
    """
    tasks = int(metrics.get("forgetting/tasks", 0))
    excluded = int(metrics.get("forgetting/tasks_excluded", 0))
    rows: list[list[Cell]] = [
        ["best", metrics.get("forgetting/best"), "final - best checkpoint (the paper's formula)"],
        ["seen98", metrics.get("forgetting/seen98"), "final - checkpoint at the task's end"],
        [
            "seen98, by frequency",
            metrics.get("forgetting/seen98_frequency"),
            "the same, weighted by items of the whole split",
        ],
        [
            "as released",
            metrics.get("forgetting/as_released"),
            "mixed units, for the published column only",
        ],
        ["average", metrics.get("continual/average"), "final loss, mean over tasks"],
        ["backward transfer", metrics.get("continual/bwt"), "positive: later training helped"],
        ["forward transfer", metrics.get("continual/fwt"), "positive: better than uniform"],
    ]
    note = (
        f"{tasks} tasks; {excluded} others are left out, with fewer than {min_items} items that "
        "every checkpoint has evaluated."
    )
    columns = (Column("forgetting"), Column("nats"), Column("meaning"))
    return Table("tasks over time", columns, rows if "forgetting/tasks" in metrics else [], (note,))


def composition_table(metrics: dict[str, float]) -> Table:
    """Seen against novel compositions, adjectives and verbs apart, beside the oracles."""
    rows: list[list[Cell]] = []
    for kind in KINDS:
        for group in ("seen", "novel"):
            key = f"{group}/{kind}"
            if f"{key}/pairs" not in metrics:
                continue
            low, high = (metrics.get(f"{key}/log_ppl_pair_{end}") for end in ("low", "high"))
            rows.append(
                [
                    f"{kind}, {group}",
                    metrics.get(f"{key}/log_ppl_pair"),
                    None if low is None or high is None else f"{low:.3f} .. {high:.3f}",
                    metrics.get(f"{key}/log_ppl_atom"),
                    metrics.get(f"{key}/log_ppl_noun"),
                    metrics.get(f"{key}/memoriser"),
                    metrics.get(f"{key}/composer"),
                    int(metrics[f"{key}/pairs"]),
                    int(metrics[f"{key}/items"]),
                ]
            )
    heads = ("", "both atoms", "95 % over pairs", "atom", "noun", "memoriser", "composer")
    columns = (*(Column(head) for head in heads), Column("pairs"), Column("items"))
    note = "Loss at the atom tokens in nats, mean per pair, then over pairs."
    return Table("compositions", columns, rows, (note,))


def few_items_table(workdir: epath.PathLike, context: Context) -> list[Table]:
    """Pairs with so few items that their means say little; they are in the averages."""
    rows: list[list[Cell]] = []
    for split, novel in (("test", False), ("novel", True)):
        table = _last(workdir, split)
        if table is None:
            continue
        for kind in KINDS:
            use = composition_items(table, kind, novel, context)
            scores = compositional.pair_scores(table.pair, table.pair_nll.mean(axis=1), use)
            rows += [
                [context["dataset"]["pairs"][pair]["name"], split, int(items), loss]
                for pair, loss, items in zip(*(a.tolist() for a in scores), strict=True)
                if items < compositional.FEW_ITEMS
            ]
    columns = (Column("pair"), Column("split"), Column("items"), Column("both atoms"))
    return [Table(f"pairs with fewer than {compositional.FEW_ITEMS} items", columns, rows)]


def example_tables(workdir: epath.PathLike, context: Context) -> list[Table]:
    """Captions with the predicted span in place, right and wrong ones."""
    table = _last(workdir, main_split(context))
    if table is None:
        return []
    place = {identity: index for index, identity in enumerate(table.ids.tolist())}
    loss = ppl.item_nll(table.nll, table.mask)
    right: list[list[Cell]] = []
    wrong: list[list[Cell]] = []
    for example in context["examples"]:
        index = place.get(example["id"])
        if index is None:
            continue
        mask = table.mask[index]
        true, predicted = table.target[index, mask], table.prediction[index, mask]
        start, stop = example["span"]
        caption, name = example["caption"], lambda ids: words(ids, context["tokens"])
        rows = right if (true == predicted).all() else wrong
        rows.append(
            [
                f"{name(caption[:start])} [ {name(predicted)} ] {name(caption[stop:])}".strip(),
                name(true),
                float(loss[index]),
            ]
        )
    columns = (Column("caption with the prediction"), Column("truth"), Column("log-PPL"))
    return [
        Table("filled in right", columns, right[:SHOWN_EXAMPLES]),
        Table("filled in wrong", columns, wrong[:SHOWN_EXAMPLES]),
    ]


def words(ids: Any, tokens: list[str]) -> str:
    """Token ids as text; WordPieces are joined to their words."""
    pieces = [tokens[i] if i < len(tokens) else f"[row {i}]" for i in map(int, ids)]
    text = " ".join(pieces).replace(" ##", "").removeprefix("##")
    return text.replace("|", "\\|")


def _last(workdir: epath.PathLike, split: str) -> PredictionTable | None:
    evaluations = load_evaluations(workdir, split)
    return evaluations[max(evaluations)] if evaluations else None


def _splits(metrics: dict[str, float]) -> list[str]:
    found = [key.removesuffix("/n") for key in metrics if key.endswith("/n")]
    return sorted(found, key=lambda name: (name == "novel", name.endswith(SUBSET)))


def _baseline(name: str) -> list[str]:
    return [f"{name}/{metric}" for metric in ("log_ppl", "bleu1", "bleu2")]


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _small(summary: dict[str, Any]) -> str:
    return " (small: not the published size)" if summary.get("small") else ""


def _information(value: float | None) -> str:
    return "" if value is None else f", I(task; time)/H(task) = {value:.2f}"
