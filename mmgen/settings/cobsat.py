"""Keys of CoBSAT, and what follows from them."""

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.suggest import check_choice

WORLD = "shape_world"

CHOICES: dict[str, tuple[str, ...]] = {
    "prompt": ("default", "exact", "misleading", "instruct", "caption", "cot"),
    "output": ("text", "image"),
    "split": ("default", "ft_test"),
    "instructions": ("auto", "none", "seed", "emu", "gill", "llava", "qwen", "gpt4v"),
    "table": ("paper", "repo"),
    "words": ("display", "letters"),
    "selection": ("record", "fixed", "similar", "dissimilar"),
    "parser": ("official", "robust"),
    "judge_cut": ("none", "official", "description"),
}
"""Keys with a closed set of values."""

INSTRUCTIONS = {"text": "gpt4v", "image": "none"}
"""Output -> whose instruction "auto" means: the plainest printed one for descriptions; none for
images, as SEED-LLaMA and Emu had."""

WORLD_JUDGES = {"text": "words", "image": "pixel"}
"""Output -> who judges it on `shape_world` where no judge is named."""


def cobsat_group() -> ConfigDict:
    """Show by demonstrations what an image shall be."""
    cobsat = ConfigDict()
    # Tasks by name ("Color-I"), number or theme; "all", "object" (inference) or "attribute".
    cobsat.task = ("all",)
    # Demonstrations, 0 to 8 (the fine-tuning test: to 4).
    cobsat.shots = 2
    # "default", "exact", "misleading", "instruct", "caption" or "cot".
    cobsat.prompt = "default"
    # What the model shall give: "text" (a description) or "image".
    cobsat.output = "text"
    # "default" (1,000 prompts a task), or "ft_test" (250 with words that fine-tuning never saw).
    cobsat.split = "default"
    # Seed of the prompts, 123 gives the published ones; or a prompt file in the release's format.
    cobsat.prompt_seed = 123
    cobsat.prompts = ""
    # Whose instruction, "auto" for one by output; and "paper" (as printed) or "repo" (as released).
    cobsat.instructions = "auto"
    cobsat.table = "paper"
    # Latent words raw ("3d", "park") in exact and misleading prompts, as released.
    cobsat.leak = False
    # "letters" in place of the given words (low-semantic words).
    cobsat.words = "display"
    # Demonstrations as the "record" has them, or the words "fixed", "similar" or "dissimilar" to
    # the query's (section 9).
    cobsat.selection = "record"
    # Answers to each prompt, of which the most frequent counts (self-consistency, section 9).
    cobsat.votes = 1
    # New tokens of the first step of a chain of thought.
    cobsat.thought_tokens = 256
    # How a judging model's replies are read: "robust", or "official" (all digits in one).
    cobsat.parser = "robust"
    # Questions beyond 2,047 characters: "none", "official" (lose their end) or "description".
    cobsat.judge_cut = "none"
    # Ask the judge about the data set's own images, too, and correct the accuracy by its errors.
    cobsat.audit = False
    # Pixels of shape_world's images.
    cobsat.size = 128
    return cobsat


def resolve_cobsat(config: ConfigDict) -> None:
    """Decide what is left open, in place.

    Raises:
      UserError: an unknown choice.
    """
    cobsat = config.cobsat
    for key, choices in CHOICES.items():
        check_choice(f"config.cobsat.{key}", cobsat[key], choices)
    if cobsat.shots < 0:
        raise UserError(f"config.cobsat.shots is {cobsat.shots}; it must be 0 or more.")
    if cobsat.instructions == "auto":
        cobsat.instructions = INSTRUCTIONS[cobsat.output]
    if config.dataset.name == WORLD and not config.judge.spec:
        config.judge.spec = WORLD_JUDGES[cobsat.output]
