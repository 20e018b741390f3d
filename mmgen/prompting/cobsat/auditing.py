"""A judge asked about the data set's own images, or captions, whose labels are known."""

from collections.abc import Mapping

import numpy as np

from mmgen.prompting.cobsat.dataset import CobsatDataset
from mmgen.prompting.cobsat.tasks import Task
from mmgen.prompting.judges.audit import Audit, audit
from mmgen.prompting.judges.base import Judgement, Subject


def known_subjects(
    dataset: CobsatDataset, tasks: tuple[Task, ...], output: str, shown: bool = True
) -> list[Subject]:
    """Every image (or caption, for output "text") of the tasks' themes.

    Args:
      shown: tell fake judges what is shown.
    """
    subjects = []
    for theme in {task.theme.name: task.theme for task in tasks}.values():
        for cell in dataset.images.present(theme):
            is_image = output == "image"
            subjects.append(
                Subject(
                    item=f"known/{theme.name}/{cell.attribute}_{cell.object}",
                    theme=theme,
                    picture=dataset.images.picture(theme, cell) if is_image else None,
                    text=None if is_image else dataset.images.caption(theme, cell),
                    target=cell,
                    shown=cell if shown else None,
                )
            )
    return subjects


def audit_judge(subjects: list[Subject], judged: Mapping[str, Judgement]) -> dict[str, Audit]:
    """Audits of "attribute", "object" and "joint"; items without a judgement are abstentions."""
    if not subjects:
        return {}
    cells = [subject.target for subject in subjects if subject.target is not None]
    seen = [judged.get(subject.item, Judgement(-1, -1)) for subject in subjects]
    count = max(len(subject.theme.attributes) for subject in subjects)
    attribute = np.array([one.attribute for one in seen])
    kind = np.array([one.object for one in seen])
    labels = np.array(cells)
    places = np.arange(len(seen))
    both = np.where((attribute < 0) | (kind < 0), -1, attribute * count + kind)
    return {
        "attribute": audit(attribute, labels[:, 0], count, places),
        "object": audit(kind, labels[:, 1], count, places),
        "joint": audit(both, labels[:, 0] * count + labels[:, 1], count * count, places),
    }
