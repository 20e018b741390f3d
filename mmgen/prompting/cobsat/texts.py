"""The words of a sample: what stands before each image, and the query (sections 3, 6 and D.1).

| prompt type        | text of a demonstration and of the query | images            |
|--------------------|------------------------------------------|-------------------|
| default, cot       | `red: `                                  | as demonstrations |
| instruct           | `red: `, after an explicit instruction   | as demonstrations |
| exact              | `red car: `, the given word first        | as demonstrations |
| misleading         | `red box: `, the latent being car        | as demonstrations |
| caption (T-ICL)    | `red: ` and the image's caption          | none              |
"""

from collections.abc import Sequence

from mmgen.prompting.cobsat.samples import Sample


def sample_texts(
    sample: Sample, prompt_type: str, *, leak: bool = False, given: Sequence[str] | None = None
) -> list[str]:
    """Texts of the demonstrations and, last, of the query.

    Args:
      leak: show latent words as the release does, raw ("3d", "park"), while given words are shown
        words ("wireframe", "amusement park") everywhere.
      given: shown words of the given kind, instead of the task's (low-semantic words).
    """
    task = sample.task
    given = given or task.theme.shown(task.given)
    latent = task.latents if leak else task.theme.shown(task.latent)
    words = [given[text] for text in sample.texts]
    if prompt_type == "exact":
        words = [f"{word} {latent[sample.latent]}" for word in words]
    elif prompt_type == "misleading":
        others = [latent[place] for place in sample.misleading]
        words = [f"{word} {other}" for word, other in zip(words, others, strict=True)]
    return [f"{word}: " for word in words]


def target_words(sample: Sample) -> tuple[str, str]:
    """Shown words of the right attribute and object."""
    theme, target = sample.task.theme, sample.target
    return theme.shown("attribute")[target.attribute], theme.shown("object")[target.object]
