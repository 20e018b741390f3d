"""Runs the code cells of a notebook and puts in what they print, give and draw.

python examples/execute_notebook.py examples/visCOLL.ipynb

Runs where it is started, here the root of the repository. Needs matplotlib for figures, and nothing
of Jupyter.
"""

import ast
import base64
import contextlib
import io
import json
import pathlib
import sys
from typing import Any

Output = dict[str, Any]


def execute(notebook: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """The notebook (JSON, format 4) with the outputs of its cells, run in order in `names`."""
    cells = []
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = run_cell("".join(cell["source"]), names)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def run_cell(source: str, names: dict[str, Any]) -> list[Output]:
    """Outputs of a cell: what it prints, the value of its last line, the figures it leaves open."""
    body = ast.parse(source).body
    last = None
    if isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(body.pop().value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        value = None if last is None else eval(compile(last, "<cell>", "eval"), names)
    outputs: list[Output] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        outputs.append(_display(repr(value), "text/plain"))
    return outputs + [_display(image, "image/png") for image in _figures()]


def _display(data: str, kind: str) -> Output:
    return {"output_type": "display_data", "data": {kind: data}, "metadata": {}}


def _figures() -> list[str]:
    """The open figures as PNG in base64; they are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    images = []
    for number in plt.get_fignums() if plt else ():
        buffer = io.BytesIO()
        # The same picture from the same numbers: without the version that drew it.
        plt.figure(number).savefig(buffer, format="png", dpi=80, metadata={"Software": None})
        plt.close(number)
        images.append(base64.b64encode(buffer.getvalue()).decode())
    return images


def main(path: pathlib.Path) -> None:
    """Executes the notebook in place."""
    import matplotlib

    matplotlib.use("agg")
    executed = execute(json.loads(path.read_text()), {})
    path.write_text(json.dumps(executed, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
