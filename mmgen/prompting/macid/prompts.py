"""The questions of MACID in the versions that are in circulation, and how examples precede them.

    paper        as printed (Ravelli et al. 2024), with its typo "describe"
    corrected    the same with "descrive"
    harness      CALAMITA-AILC/calamita-eval tasks/macid/macid.yaml (Apache-2.0): one line
    follow_up_N  the layout of Rinaldi et al. 2025 (mrinaldi97/MACID) at three levels of
                 instruction: 0 is the harness sentence, 1 adds a short definition of "action
                 concept", 2 a long one with advice. Their texts carry no licence: levels 1 and 2
                 say the same in our own words, so that only level 0 is theirs word for word.

English versions, and the question about pairs, are ours.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mmgen.errors import UserError
from mmgen.prompting.parts import merged, stripped
from mmgen.prompting.requests import Part, Text, Turn

LANGUAGES = ("it", "en")

YES_NO = {"it": ("Sì", "No"), "en": ("Yes", "No")}

_PAPER = (
    "Le seguenti 4 frasi sono descrizioni di azioni fisiche. Tre di queste azioni sono dello "
    "stesso tipo, mentre una è di un tipo diverso. Individua la frase che {verb} l'azione di tipo "
    "diverso rispondendo soltanto con il numero della frase (1, 2, 3 o 4)."
)
_HARNESS = (
    "In questo task ti verranno proposte quattro frasi che descrivono azioni fisiche. Tre di "
    "queste azioni sono dello stesso tipo, mentre una è di un tipo diverso. Individua la frase che "
    "descrive l\u2019azione di tipo diverso. Esiste solo una risposta esatta, rispondi utilizzando "
    "esclusivamente il numero di riferimento della frase e nient'altro."
)
_ENGLISH = (
    "The following 4 sentences describe physical actions. Three of these actions are of the same "
    "type, while one is of a different type. Find the sentence that describes the action of a "
    "different type, answering only with the number of the sentence (1, 2, 3 or 4)."
)
_PAIR = {
    "it": (
        "Le seguenti 2 frasi sono descrizioni di azioni fisiche. Le due azioni sono dello stesso "
        "tipo? Rispondi soltanto Sì o No."
    ),
    "en": (
        "The following 2 sentences describe physical actions. Are the two actions of the same "
        "type? Answer only Yes or No."
    ),
}
_DEFINITION = {
    "it": (
        "Il tipo di un'azione è il suo concetto azionale: uno schema di cambiamenti che chi agisce "
        "produce nel mondo. Vale per oggetti diversi; lo stesso verbo può esprimere più concetti, "
        "e lo stesso concetto può essere espresso da più verbi."
    ),
    "en": (
        "The type of an action is its action concept: a pattern of changes that whoever acts "
        "brings about in the world. It holds for various objects; one verb can express several "
        "concepts, and one concept can be expressed by several verbs."
    ),
}
_ADVICE = {
    "it": (
        "Per riconoscerlo considera chi agisce, su che cosa agisce, con quale parte del corpo o "
        "strumento, e soprattutto che cosa cambia: se un oggetto si sposta, si deforma, si apre, "
        "entra in un altro, o se soltanto riceve una forza. Per esempio, premere un pulsante e "
        "schiacciare un tasto sono lo stesso concetto; spingere un carrello e spingere un pulsante "
        "sono concetti diversi, benché il verbo sia lo stesso. Guarda al cambiamento, non al "
        "verbo."
    ),
    "en": (
        "To recognise it, consider who acts, on what, with which part of the body or tool, and "
        "above all what changes: whether a thing moves, is deformed, opens, goes into another one, "
        "or only receives a force. For example, pressing a button and pushing down a key are the "
        "same concept; pushing a cart and pushing a button are different concepts, though the verb "
        "is the same. Look at the change, not at the verb."
    ),
}


class Prompt(NamedTuple):
    """A way of asking.

    Attributes:
      instruction: what stands before the sentences.
      gap: between instruction and sentences.
      mark: after a sentence's number.
      between: between sentences.
      cue: after the last one; its trailing space belongs to the published plain text.
      answers: the possible answers.
      raw_space: between the plain text, without its trailing space, and the answer.
    """

    instruction: str
    gap: str
    mark: str
    between: str
    cue: str
    answers: tuple[str, ...]
    raw_space: str = " "


NUMBERS = ("1", "2", "3", "4")


def make_prompt(name: str, language: str, *, pairs: bool) -> Prompt:
    """The prompt of that name.

    Raises:
      UserError: there is no instruction in that language.
    """
    if language not in LANGUAGES:
        raise UserError(
            f"config.macid.language is {language!r}; there are instructions in "
            f"{', '.join(LANGUAGES)}."
        )
    instruction = _instruction(name, language, pairs)
    answers = YES_NO[language] if pairs else NUMBERS
    if name in ("paper", "corrected"):
        return Prompt(instruction, " ", ": ", " ", "", answers)
    cues: Mapping[str, tuple[str, str]] = {
        "it": ("Intruso: ", "Risposta: "),
        "en": ("Intruder: ", "Answer: "),
    }
    cue = cues[language][pairs]
    if name == "harness":
        # The harness puts a space before the choice and moves the text's own behind it, too.
        return Prompt(instruction, " ", ") ", " ", f" {cue}", answers, raw_space="  ")
    return Prompt(instruction, "\n\n", ") ", "\n", f"\n{cue}", answers)


def _instruction(name: str, language: str, pairs: bool) -> str:
    if pairs:
        base = _PAIR[language]
    elif language == "en":
        base = _ENGLISH
    elif name in ("paper", "corrected"):
        base = _PAPER.format(verb="describe" if name == "paper" else "descrive")
    else:
        base = _HARNESS
    parts = [base]
    if name in ("follow_up_1", "follow_up_2"):
        parts.append(_DEFINITION[language])
    if name == "follow_up_2":
        parts.append(_ADVICE[language])
    return " ".join(parts)


def question(prompt: Prompt, sentences: Sequence[tuple[Part, ...]]) -> tuple[Part, ...]:
    """The question as parts, texts in one piece wherever no picture stands between.

    Args:
      prompt: how to ask.
      sentences: what stands for each description: its text, pictures, or both.
    """
    parts: list[Part] = [Text(prompt.instruction + prompt.gap)]
    for number, sentence in enumerate(sentences, start=1):
        before = prompt.between if number > 1 else ""
        parts += [Text(f"{before}{number}{prompt.mark}"), *sentence]
    return merged([*parts, Text(prompt.cue)])


def conversation(
    prompt: Prompt,
    examples: Sequence[tuple[tuple[Part, ...], str]],
    query: tuple[Part, ...],
    *,
    raw: bool,
    scored: bool,
) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """Turns, and the choices to score (none if an answer is generated).

    Args:
      prompt: how to ask.
      examples: (question, answer) of the solved groups shown first.
      query: the question.
      raw: one plain text, examples with their answers in front of it; otherwise a chat.
      scored: choices are scored: the text ends without its space, which the choices begin with.
    """
    if not raw:
        turns: list[Turn] = []
        for asked, answer in examples:
            turns += [Turn("user", stripped(asked)), Turn("assistant", (Text(answer),))]
        turns.append(Turn("user", stripped(query)))
        return tuple(turns), prompt.answers if scored else ()
    parts: list[Part] = []
    for asked, answer in examples:
        parts += [*stripped(asked), Text(f" {answer}\n\n")]
    parts += stripped(query) if scored else query
    choices = tuple(prompt.raw_space + answer for answer in prompt.answers) if scored else ()
    return (Turn("user", merged(parts)),), choices
