"""Lemma of the main verb of a description of pushing, from a small lexicon.

The published file names no verbs. The first word of a sentence that is a form of a known verb is
its main verb: descriptions begin with who acts. A sentence without such a word has no lemma, and
its group no pattern; an annotation file says more.
"""

import functools
import re
from collections.abc import Mapping

ITALIAN = (
    "accompagnare appoggiare avanzare battere bloccare bussare buttare calcare cacciare caricare "
    "colpire comprimere condurre conficcare dirigere dare fare ficcare gettare infilare inserire "
    "lanciare mandare muovere opprimere pestare piantare pigiare portare posare premere pressare "
    "rotolare rovesciare sbattere scansare scaraventare scartare schiacciare scostare scuotere "
    "sfondare sollevare sospingere spalancare spingere spintonare spostare sprofondare stringere "
    "strattonare tirare trascinare urtare"
).split()
"""Verbs of pushing and of what lies near it."""

ENGLISH = (
    "bang bump crush drag drive force hit jab jam jostle knock kick lean lower move nudge pin "
    "plunge poke press prod pull push ram roll send shift shove slam slide slip squash "
    "squeeze stick throw thrust wheel"
).split()

_IRREGULAR = {
    "dare": ("dà", "danno", "dando", "dato", "data"),
    "fare": ("fa", "fanno", "facendo", "fatto", "fatta"),
    "condurre": ("conduce", "conducono", "conducendo", "condotto", "condotta"),
    "comprimere": ("compresso", "compressa"),
    "muovere": ("mosso", "mossa"),
    "opprimere": ("oppresso", "oppressa"),
    "premere": ("premuto", "premuta"),
    "scuotere": ("scosso", "scossa"),
    "sospingere": ("sospinto", "sospinta"),
    "spingere": ("spinto", "spinta", "spinti", "spinte"),
    "stringere": ("stretto", "stretta"),
    "hit": ("hits", "hitting"),
    "send": ("sends", "sent", "sending"),
    "stick": ("sticks", "stuck", "sticking"),
    "throw": ("throws", "threw", "throwing"),
    "thrust": ("thrusts", "thrusting"),
    "drive": ("drives", "drove", "driving"),
    "slide": ("slides", "slid", "sliding"),
}
"""Forms that the rules below do not give."""

_RULELESS = ("condurre", "dare", "fare")
"""Verbs with no regular form; by the rules, the preposition "da" would be one of `dare`."""


def lemma(sentence: str, language: str) -> str | None:
    """Lemma of the main verb, None if none of its words is a form of a known verb."""
    forms = _FORMS.get(language, dict)()
    for word in re.findall(r"[^\W\d_]+", sentence.lower()):
        if word in forms:
            return forms[word]
    return None


@functools.cache
def _italian_forms() -> Mapping[str, str]:
    forms: dict[str, str] = {}
    for verb in ITALIAN:
        stem, ending = verb[:-3], verb[-3:]
        ends = "a ano ando ato ata ati ate" if ending == "are" else "e ono endo uto uta"
        regular = [] if verb in _RULELESS else [f"{stem}{end}" for end in ends.split()]
        for form in (*regular, *_IRREGULAR.get(verb, ())):
            forms.setdefault(form, verb)
    return forms


@functools.cache
def _english_forms() -> Mapping[str, str]:
    forms: dict[str, str] = {}
    for verb in ENGLISH:
        stem = verb.removesuffix("e")
        doubled = f"{verb}{verb[-1]}"
        third = f"{verb}es" if verb.endswith(("sh", "ss", "ch")) else f"{verb}s"
        regular = (verb, third, f"{stem}ing", f"{stem}ed", f"{doubled}ing", f"{doubled}ed")
        for form in (*regular, *_IRREGULAR.get(verb, ())):
            forms.setdefault(form, verb)
    return forms


_FORMS = {"it": _italian_forms, "en": _english_forms}
