"""What is said to a model before and after the demonstrations.

Two tables. "paper" has the strings as printed (A.1, A.2, 6.1 and 7.2); "repo" those that the
released code sends, with which the published numbers were made. They differ in small words, spaces
and line ends; each difference stands where the repo's strings are made from the printed ones.
"""

from typing import NamedTuple

from mmgen.prompting.cobsat.tasks import Task
from mmgen.settings.suggest import check_choice

TABLES = ("paper", "repo")

MODELS = ("none", "seed", "emu", "gill", "llava", "qwen", "gpt4v")
"""Whose instruction it is. Another model may borrow any; "none" says nothing."""

PROMPT_TYPES = ("default", "exact", "misleading", "instruct", "caption", "cot")


class Instruction(NamedTuple):
    """Words around the demonstrations: system message, start and end of the prompt."""

    system: str = ""
    start: str = ""
    end: str = ""


_PROFESSIONAL = (
    "You are a professional assistant and always answer my question directly and perfectly without "
    "any excuses."
)
_ASPECTS = (
    "including attributes such as the main object, color, texture, background, action, style, if "
    "applicable."
)
_NEXT_IMAGE = f"Based on the sequence, describe what the next image should be clearly, {_ASPECTS}"
_ONLY = "Your response should only contain a description of the image, and"
_PROMPT_ONLY = (
    "Tell me only the text prompt and I'll use your entire answer as a direct input to A Dalle-3. "
    "Never say other explanations."
)

_TEXT = {
    "none": Instruction(),
    "emu": Instruction(
        system=f"Based on the sequence, describe the next image clearly, {_ASPECTS}"
    ),
    "gill": Instruction(
        start=_PROFESSIONAL,
        end=f"{_NEXT_IMAGE} {_ONLY} any additional information can cause significant loss.",
    ),
    "seed": Instruction(
        start="I will provide you a few examples with text and image. Complete the example with "
        f"the description of next image. {_PROMPT_ONLY}"
    ),
    "llava": Instruction(
        end=f"Based on the sequence, describe the next image to be generated clearly, {_ASPECTS}"
    ),
    "qwen": Instruction(
        start=_PROFESSIONAL,
        end=f"{_NEXT_IMAGE} {_ONLY} all other information can cause huge loss.",
    ),
    "gpt4v": Instruction(
        start="I will provide you with a few examples with text and images. Complete the example "
        "with the description of the next image. The description should be clear with main object, "
        "and include attributes such as color, texture, background, style, and action, if "
        f"applicable. {_PROMPT_ONLY}"
    ),
}
_IMAGE = dict.fromkeys(MODELS, Instruction()) | {
    "gill": Instruction(
        system="You are a professional assistant who can generate a new image based on the "
        "sequence."
    )
}

_CAPTION = (
    "We provide a few examples, each with an input, and an output of the image description. Based "
    "on the examples, predict the next image description"
)

_COT_START = (
    "We provide a few examples, each of which is an input-output pair where the output is a "
    "description of the image associated with the input. Based on the examples, the task is to "
    "predict the next image description.\n\n\n"
)
_COT_END = (
    "\n\n\n Before predicting the next image, let's first think step by step and analyze the "
    "relationship between the text input and image output in each example.\n\n\n"
)
_COT_STEP = {
    "image": "\n\n\n Based on the analysis, please generate the next image for the request '{}'",
    "text": "\n\n\n Based on the analysis, please describe what the next image should look like "
    "for the request '{}'",
}

_EXPLICIT_IMAGE = {
    1: "main object in the images, and generate another image of this object of the requested "
    "color.",
    2: "color in the images, and generate another image of the requested object in the same color.",
    3: "animal in the images, and generate another image of this animal walking in the requested "
    "background.",
    4: "background in the images, and generate another image of the requested animal walking in "
    "the same background.",
    5: "object in the images, and generate another image of this object in the requested style.",
    6: "style in the images, and generate another image of the requested object in the same style.",
    7: "animal in the images, and generate another image of this animal doing the requested "
    "action.",
    8: "action/mood the animal is doing in the images, and generate another image of the requested "
    "animal doing the same action/mood.",
    9: "main object in the images, and generate another image of this object of the requested "
    "texture.",
    10: "texture of the objects in the images, and generate another image of the requested object "
    "in the same texture.",
}
"""Task number -> what follows "Please identify the common " (A.2)."""

_EXPLICIT_TEXT = {
    1: ("main object", "the common main object", "the requested color"),
    2: ("main color", "the requested object", "the common color"),
    3: ("animal", "the common animal", "the requested background"),
    4: ("background", "the requested animal", "the common background"),
    5: ("object", "the common object", "the requested style"),
    6: ("style", "the requested object", "the common style"),
    7: ("animal", "the common animal", "the requested action"),
    8: (
        "action/mood the animal is doing",
        "the requested animal",
        "the common action/mood",
    ),
    9: ("main object", "the common main object", "the requested texture"),
    10: ("texture of the objects", "the requested object", "the common texture"),
}
"""Task number -> what is common, and the two things that the description shall contain (A.2)."""


def instruction(
    task: Task, prompt_type: str, output: str, model: str = "none", table: str = "paper"
) -> Instruction:
    """The words around the demonstrations; for "cot", of its first step.

    Args:
      output: "image" or "text".
      model: whose default instruction; `instruct`, `caption` and `cot` have one for all models.
      table: "paper" or "repo".

    Raises:
      UserError: an unknown name.
    """
    check_choice("config.prompt", prompt_type, PROMPT_TYPES)
    check_choice("config.instructions.model", model, MODELS)
    check_choice("config.instructions.table", table, TABLES)
    if prompt_type == "instruct":
        found = Instruction(start=_explicit(task, output))
    elif prompt_type == "caption":
        found = Instruction(start=_CAPTION + (" and visualize it." if output == "image" else "."))
    elif prompt_type == "cot":
        found = Instruction(start=_COT_START, end=_COT_END)
    else:
        found = (_IMAGE if output == "image" else _TEXT)[model]
    return found if table == "paper" else _as_released(found, prompt_type, output, model)


def second_step(output: str, query: str, table: str = "paper") -> str:
    """The second prompt of a chain of thought, for a query such as "red: " (7.2)."""
    text = _COT_STEP[output]
    if table == "repo":
        text = text.replace("for the request", "given the request")
        text = text.replace("should look like", "should be look like")
    return text.format(query)


def _explicit(task: Task, output: str) -> str:
    common, requested = getattr(task.theme, task.latent), getattr(task.theme, task.given)
    if output == "image":
        # A theme of one's own has no printed sentence.
        rest = _EXPLICIT_IMAGE.get(
            task.number,
            f"{common} in the images, and generate another image with the same {common} and the "
            f"requested {requested}.",
        )
        return f"Please identify the common {rest}"
    contents = [f"the requested {requested}", f"the common {common}"]
    if task.latent == "object":
        contents.reverse()
    what, first, second = _EXPLICIT_TEXT.get(task.number, (common, *contents))
    return (
        f"Please identify the common {what} in the images, and describe the next image to be "
        "generated based on the sequence below. Your description of the image should contain the "
        f"description of {first} and {second}."
    )


_QWEN_SYSTEM = (
    f"{_PROFESSIONAL} If I ask you to predict, you should always give me the prediction with the "
    "highest probability or even random guess."
)


def _as_released(found: Instruction, prompt_type: str, output: str, model: str) -> Instruction:
    """The repository's wording of a printed instruction."""
    start, end, system = found.start, found.end, found.system
    if prompt_type == "instruct":
        start = start.replace("description of the image should", "description of image should")
    elif prompt_type == "caption":
        start = start.replace("with an input", "with a input")
        start = start.replace("image description and", "image descripion and")
        start = start.replace("next image description.", "next image descripion.")
    elif prompt_type == "cot":
        end = end.replace(
            "analyze the relationship between the text input and image output in each example.",
            "analyze what the relationship between the text input and image output in each example "
            "is first.",
        )
        return Instruction(system, start, end)
    else:
        start, end, system = (
            part.replace("attributes such as", "details such as") for part in (start, end, system)
        )
        system = system.replace("assistant who can", "assistant can").replace(
            "sequence.", "seqeunce." if output == "image" else "sequence."
        )
        end = end.replace(
            "any additional information can cause significant",
            "all other information can cause huge",
        )
        if output == "text" and model == "qwen":
            start, system = "", _QWEN_SYSTEM
        if output == "text" and model in ("llava", "qwen"):
            end = "\n" + end
    # Its strings end with a space, also where nothing follows.
    spaced = (part and f"{part} " for part in (start, end))
    return Instruction(system, *spaced)
