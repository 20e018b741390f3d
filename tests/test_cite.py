"""What `--cite` prints: BibTeX of the paper and of the code, from the published facts alone."""

import pathlib
import re

from e2e.running import CONFIG, run_main

import mmgen
from mmgen.report.citations import TITLE, citations, paper_of
from mmgen.report.published import papers

ROOT = pathlib.Path(__file__).parent.parent
ENTRY = re.compile(r"@(\w+)\{(\w+),\n((?:  \w+ = \{.*\},\n)+)\}")


def test_main_prints_two_entries():
    result = run_main(CONFIG, "--cite")
    assert result.returncode == 0, result.stderr
    entries = {key: (kind, body) for kind, key, body in ENTRY.findall(result.stdout)}
    assert list(entries) == ["viscoll2020", "mmgen"]
    kind, body = entries["viscoll2020"]
    assert kind == "inproceedings"
    assert "Visually Grounded Continual Learning of Compositional Phrases" in body
    assert "  author = {Jin and others},\n" in body and "  year = {2020},\n" in body
    assert mmgen.__version__ in entries["mmgen"][1]
    assert ENTRY.sub("", result.stdout).strip() == ""


def test_the_code_is_cited_as_citation_cff_says():
    cff = (ROOT / "CITATION.cff").read_text()
    assert f'title: "{TITLE}"' in cff
    assert f"version: {mmgen.__version__}\n" in cff
    assert re.search(r"authors:\n  - name: (.*)\n", cff)[1] in citations("visCOLL_er10k")


def test_every_paper_can_be_cited_and_every_config_has_one():
    for name, paper in papers().items():
        assert paper["bibtex"]["fields"]["title"] and paper_of(f"{name}_x") == name
    names = {path.stem.split("_")[0].lower() for path in (ROOT / "configs").glob("*.py")}
    assert names <= set(papers())
    assert paper_of("mine") == "viscoll"
