"""Words of `push_world`: 18 action concepts around pushing, in Italian and English.

A concept is a leaf of a tree of 3 x 3 x 2. It is fixed by verb and object together and never by
the verb: every verb belongs to several concepts, and an object to one, or to two that use it with
different verbs.
"""

from typing import NamedTuple


class Concept(NamedTuple):
    """A kind of action.

    Attributes:
      name: of the concept.
      verbs: lemmas that may name it.
      objects: what is acted upon, keys of `OBJECTS`.
    """

    name: str
    verbs: tuple[str, ...]
    objects: tuple[str, ...]


def _concept(name: str, verbs: str, objects: str) -> Concept:
    return Concept(name, tuple(verbs.split()), tuple(objects.split()))


TREE: tuple[tuple[tuple[Concept, Concept], ...], ...] = (
    # Something moves along.
    (
        (
            _concept(
                "wheel along", "spingere sospingere spostare", "carrello barella carriola sedia"
            ),
            _concept("start rolling", "spingere sospingere spostare", "auto furgone moto pullman"),
        ),
        (
            _concept(
                "slide over the floor", "spingere spostare", "armadio divano baule cassa letto"
            ),
            _concept(
                "slide over a table", "spingere spostare infilare", "piatto foglio pedina moneta"
            ),
        ),
        (
            _concept("roll", "spingere sospingere urtare", "palla botte tronco ruota"),
            _concept("set afloat", "spingere sospingere spostare", "barca zattera canoa altalena"),
        ),
    ),
    # Something is pressed.
    (
        (
            _concept(
                "press with a finger",
                "premere schiacciare pigiare spingere",
                "pulsante campanello tasto interruttore",
            ),
            _concept(
                "press with a foot",
                "premere schiacciare pigiare spingere",
                "pedale freno acceleratore frizione",
            ),
        ),
        (
            _concept("squeeze", "premere schiacciare pigiare", "cuscino spugna tubetto impasto"),
            _concept("crush", "schiacciare pigiare premere", "lattina noce insetto scatola uva"),
        ),
        (
            _concept("pack", "pigiare premere spingere", "vestiti rifiuti tabacco terra"),
            _concept(
                "press on", "premere schiacciare pigiare", "timbro cerotto francobollo adesivo"
            ),
        ),
    ),
    # Somebody or something is met with force.
    (
        (
            _concept("push open", "spingere urtare premere", "porta cancello portone finestra"),
            _concept("run into", "urtare spingere", "vaso lampada statua scala sedia"),
        ),
        (
            _concept(
                "shove away", "spingere urtare sospingere", "ladro rivale aggressore passante"
            ),
            _concept("guide", "spingere sospingere spostare", "bambino anziana paziente cieco"),
        ),
        (
            _concept("put in", "infilare spingere premere", "chiave spina tappo chiodo gettone"),
            _concept("throw down", "spingere urtare sospingere", "masso valigia zaino pacco cassa"),
        ),
    ),
)
"""The tree of concepts: siblings are close, concepts of one branch less so, others are distant."""

VERBS: dict[str, tuple[str, str, str, str]] = {
    "spingere": ("spinge", "spingono", "pushes", "push"),
    "sospingere": ("sospinge", "sospingono", "nudges", "nudge"),
    "spostare": ("sposta", "spostano", "shifts", "shift"),
    "premere": ("preme", "premono", "presses", "press"),
    "schiacciare": ("schiaccia", "schiacciano", "squashes", "squash"),
    "pigiare": ("pigia", "pigiano", "squeezes", "squeeze"),
    "urtare": ("urta", "urtano", "bumps", "bump"),
    "infilare": ("infila", "infilano", "slips", "slip"),
}
"""Lemma -> Italian singular and plural, English singular and plural."""

OBJECTS: dict[str, tuple[str, str]] = {
    "carrello": ("il carrello", "the cart"),
    "barella": ("la barella", "the stretcher"),
    "carriola": ("la carriola", "the wheelbarrow"),
    "sedia": ("la sedia", "the chair"),
    "auto": ("l'auto", "the car"),
    "furgone": ("il furgone", "the van"),
    "moto": ("la moto", "the motorbike"),
    "pullman": ("il pullman", "the coach"),
    "armadio": ("l'armadio", "the wardrobe"),
    "divano": ("il divano", "the sofa"),
    "baule": ("il baule", "the trunk"),
    "cassa": ("la cassa", "the crate"),
    "letto": ("il letto", "the bed"),
    "piatto": ("il piatto", "the plate"),
    "foglio": ("il foglio", "the sheet of paper"),
    "pedina": ("la pedina", "the game piece"),
    "moneta": ("la moneta", "the coin"),
    "palla": ("la palla", "the ball"),
    "botte": ("la botte", "the barrel"),
    "tronco": ("il tronco", "the log"),
    "ruota": ("la ruota", "the wheel"),
    "barca": ("la barca", "the boat"),
    "zattera": ("la zattera", "the raft"),
    "canoa": ("la canoa", "the canoe"),
    "altalena": ("l'altalena", "the swing"),
    "pulsante": ("il pulsante", "the button"),
    "campanello": ("il campanello", "the doorbell"),
    "tasto": ("il tasto", "the key of the keyboard"),
    "interruttore": ("l'interruttore", "the switch"),
    "pedale": ("il pedale", "the pedal"),
    "freno": ("il freno", "the brake"),
    "acceleratore": ("l'acceleratore", "the accelerator"),
    "frizione": ("la frizione", "the clutch"),
    "cuscino": ("il cuscino", "the cushion"),
    "spugna": ("la spugna", "the sponge"),
    "tubetto": ("il tubetto", "the tube"),
    "impasto": ("l'impasto", "the dough"),
    "lattina": ("la lattina", "the can"),
    "noce": ("la noce", "the walnut"),
    "insetto": ("l'insetto", "the insect"),
    "scatola": ("la scatola", "the box"),
    "uva": ("l'uva", "the grapes"),
    "vestiti": ("i vestiti", "the clothes"),
    "rifiuti": ("i rifiuti", "the rubbish"),
    "tabacco": ("il tabacco", "the tobacco"),
    "terra": ("la terra", "the soil"),
    "timbro": ("il timbro", "the stamp"),
    "cerotto": ("il cerotto", "the plaster"),
    "francobollo": ("il francobollo", "the postage stamp"),
    "adesivo": ("l'adesivo", "the sticker"),
    "porta": ("la porta", "the door"),
    "cancello": ("il cancello", "the gate"),
    "portone": ("il portone", "the front door"),
    "finestra": ("la finestra", "the window"),
    "vaso": ("il vaso", "the vase"),
    "lampada": ("la lampada", "the lamp"),
    "statua": ("la statua", "the statue"),
    "scala": ("la scala", "the ladder"),
    "ladro": ("il ladro", "the thief"),
    "rivale": ("il rivale", "the rival"),
    "aggressore": ("l'aggressore", "the attacker"),
    "passante": ("il passante", "the passer-by"),
    "bambino": ("il bambino", "the child"),
    "anziana": ("l'anziana", "the old lady"),
    "paziente": ("il paziente", "the patient"),
    "cieco": ("il cieco", "the blind man"),
    "chiave": ("la chiave", "the latchkey"),
    "spina": ("la spina", "the plug"),
    "tappo": ("il tappo", "the cork"),
    "chiodo": ("il chiodo", "the nail"),
    "gettone": ("il gettone", "the token"),
    "masso": ("il masso", "the boulder"),
    "valigia": ("la valigia", "the suitcase"),
    "zaino": ("lo zaino", "the backpack"),
    "pacco": ("il pacco", "the parcel"),
}
"""Key -> object in Italian and in English."""

PEOPLE: tuple[tuple[str, str, bool], ...] = (
    ("Il ragazzo", "The boy", False),
    ("La ragazza", "The girl", False),
    ("L'uomo", "The man", False),
    ("La donna", "The woman", False),
    ("Il dottore", "The doctor", False),
    ("L'infermiere", "The nurse", False),
    ("La maestra", "The teacher", False),
    ("Il soldato", "The soldier", False),
    ("Il cuoco", "The cook", False),
    ("La cameriera", "The waitress", False),
    ("Il marinaio", "The sailor", False),
    ("La signora", "The lady", False),
    ("Il vecchio", "The old man", False),
    ("La nonna", "The grandmother", False),
    ("L'operaio", "The worker", False),
    ("Il meccanico", "The mechanic", False),
    ("I due ragazzi", "The two boys", True),
    ("Le due donne", "The two women", True),
    ("Gli uomini", "The men", True),
    ("Le ragazze", "The girls", True),
    ("I soldati", "The soldiers", True),
    ("Gli operai", "The workers", True),
    ("I vicini", "The neighbours", True),
    ("Le signore", "The ladies", True),
)
"""Who acts: Italian, English, are they several."""


def leaves() -> list[Concept]:
    """The 18 concepts in the order of the tree."""
    return [concept for branch in TREE for twig in branch for concept in twig]


def similarity(first: int, second: int) -> str:
    """Similarity of two concepts by their places in `leaves`."""
    if first // 2 == second // 2:
        return "high"
    return "medium" if first // 6 == second // 6 else "low"


def sentence(subject: int, verb: str, what: str) -> dict[str, str]:
    """Language -> the sentence."""
    italian, english, several = PEOPLE[subject]
    forms = VERBS[verb]
    return {
        "it": f"{italian} {forms[several]} {OBJECTS[what][0]}",
        "en": f"{english} {forms[2 + several]} {OBJECTS[what][1]}",
    }
