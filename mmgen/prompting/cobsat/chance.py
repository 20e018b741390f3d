"""What can be scored without seeing: exact levels for each kind of prompt."""

from typing import NamedTuple

from mmgen.prompting.cobsat.samples import Sample


class Levels(NamedTuple):
    """Joint accuracy of answers that miss something.

    Attributes:
      random: of a pair of an attribute and an object drawn at random.
      text_only: best possible without the pictures.
      optimum: best possible with them.
    """

    random: float
    text_only: float
    optimum: float


def levels(sample: Sample, prompt_type: str) -> Levels:
    """Levels of one sample, exact under the way prompts are drawn."""
    count = len(sample.task.words)
    random = 1 / count**2
    guess = 1 / len(possible_latents(sample, prompt_type))
    # A caption says what the picture shows; one demonstration tells the latent.
    told = prompt_type == "caption" and sample.shots > 0
    optimum = 1.0 if sample.shots > 0 else guess
    return Levels(random, 1.0 if told else guess, max(optimum, guess))


def possible_latents(sample: Sample, prompt_type: str) -> tuple[int, ...]:
    """Latents that the words of a prompt leave open.

    Misleading words never name the latent, so that with eight demonstrations only one is left; but
    in the fine-tuning test at four shots they always do, as released.
    """
    if prompt_type == "exact":
        return (sample.latent,)
    everything = range(len(sample.task.latents))
    if prompt_type != "misleading" or sample.latent in sample.misleading:
        return tuple(everything)
    return tuple(latent for latent in everything if latent not in sample.misleading)
