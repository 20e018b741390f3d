"""What to cite: the paper of a benchmark and this code, as BibTeX."""

from collections.abc import Mapping

import mmgen
from mmgen.report.published import papers, published

TITLE = "mmgen: four benchmarks of multimodal generalization in JAX/Flax"

_SOFTWARE = {
    "title": TITLE,
    "author": "{The mmgen authors}",
    "note": f"Software, version {mmgen.__version__}, Apache-2.0",
}


def citations(experiment: str) -> str:
    """BibTeX of the paper behind an experiment, by the name of its config, and of mmgen."""
    source = published(paper_of(experiment))["bibtex"]
    return "\n".join(
        [
            bibtex(source["entry"], source["key"], source["fields"]),
            bibtex("misc", "mmgen", _SOFTWARE),
        ]
    )


def paper_of(experiment: str) -> str:
    """Name in published.json of the paper whose benchmark an experiment runs."""
    first_word = experiment.split("_")[0].lower()
    # An experiment of another name has the same keys, those of a masked-span run: VisCOLL's task.
    return first_word if first_word in papers() else "viscoll"


def bibtex(entry: str, key: str, fields: Mapping[str, str]) -> str:
    """One entry, fields in their order; the title keeps its capitals."""
    shown = {**fields, "title": f"{{{fields['title']}}}"}
    lines = [f"  {name} = {{{value}}}," for name, value in shown.items()]
    return "\n".join([f"@{entry}{{{key},", *lines, "}"]) + "\n"
