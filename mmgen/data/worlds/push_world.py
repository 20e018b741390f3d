"""`push_world`: a MACID-like set whose right answers are known (CORRECTIONS F).

18 concepts in a tree, 8 verbs, Italian and English sentences. What an action is follows from verb
and object together, never from the verb. The counts that the paper gives are met exactly at 100
groups, and in proportion otherwise: 307 captions, 230 of them used once, 61 twice, 16 three times;
intruders evenly at the four places, and of high, medium and low similarity; the intruder's verb
shared in 62 groups.

Known scores: the concepts 1.00, any constant .25, "the odd verb" .25, "the most common verb" .23.
The same groups lie in `variants/` with intruders that count from 0, and from 0 in the first half
alone, for tests of what reads them.
"""

import dataclasses
import pathlib
from collections import Counter
from collections.abc import Sequence

from mmgen.core.rng import numpy_generator
from mmgen.data.macid.dataset import MacidWriter
from mmgen.data.macid.groups import Group, csv_text, groups_csv
from mmgen.data.worlds.push_groups import Caption, Draft, build_groups
from mmgen.data.worlds.push_lexicon import PEOPLE, leaves, sentence, similarity
from mmgen.errors import UserError

NAME = "push_world"
VARIANTS = "variants"


@dataclasses.dataclass(frozen=True)
class PushWorldSettings:
    """Settings of the world.

    Attributes:
      groups: how many; a multiple of 100 meets every count exactly.
      data_seed: of every random choice.
    """

    groups: int = 100
    data_seed: int = 0


def build_push_world(
    root: pathlib.Path, settings: PushWorldSettings, *, force: bool = False
) -> None:
    """Build the world into the folder `root`, which appears only when it is finished.

    Raises:
      UserError: a setting out of range, `root` is finished already or is not ours, or the disk is
        full.
    """
    if not 10 <= settings.groups <= 1_000:
        raise UserError(f"push_world has 10 to 1,000 groups, not {settings.groups}.")
    captions = all_captions()
    generator = numpy_generator(settings.data_seed, NAME)
    drafts = build_groups(captions, similarity, settings.groups, generator, exact_uses=True)
    names = [concept.name for concept in leaves()]
    groups = write_out(drafts, captions, names)
    info = {
        "name": NAME,
        "builder": f"{__name__}:{build_push_world.__name__}",
        "settings": {"groups": settings.groups},
        "data_seed": settings.data_seed,
        "licences": ["none needed: drawn by mmgen"],
        "sources": [],
        "world": True,
    }
    with MacidWriter(root, info, groups, force=force) as writer:
        write_sources(writer.folder, drafts, captions, names)
        write_variants(writer.folder / VARIANTS, groups)


def all_captions() -> list[Caption]:
    """Every sentence that tells its concept: whose verb and object no other concept has."""
    concepts = leaves()
    owners = Counter((verb, what) for c in concepts for verb in c.verbs for what in c.objects)
    return [
        Caption(sentence(person, verb, what), number, verb, what)
        for number, concept in enumerate(concepts)
        for verb in concept.verbs
        for what in concept.objects
        if owners[verb, what] == 1
        for person in range(len(PEOPLE))
    ]


def write_out(
    drafts: Sequence[Draft], captions: Sequence[Caption], concepts: Sequence[str]
) -> list[Group]:
    """Groups with their annotations; ids count from 1, a caption has one video id."""
    languages = list(captions[0].texts)
    groups = []
    for number, draft in enumerate(drafts, start=1):
        four = [captions[caption] for caption in draft.captions]
        groups.append(
            Group(
                id=str(number),
                sentences={name: tuple(c.texts[name] for c in four) for name in languages},
                videos=tuple(f"push_{caption:05d}" for caption in draft.captions),
                intruder=draft.intruder,
                verbs=tuple(c.verb for c in four),
                concepts=tuple(concepts[c.concept] for c in four),
                distance=draft.similarity,
            )
        )
    return groups


def write_sources(
    folder: pathlib.Path,
    drafts: Sequence[Draft],
    captions: Sequence[Caption],
    concepts: Sequence[str],
) -> None:
    """Write the captions that are used and the distances, in the form that builds groups."""
    used = sorted({caption for draft in drafts for caption in draft.captions})
    languages = list(captions[0].texts)
    columns = ["caption", "verb", "concept", *(f"caption_{name}" for name in languages[1:])]
    rows = [
        [
            captions[i].texts[languages[0]],
            captions[i].verb,
            concepts[captions[i].concept],
            *(captions[i].texts[name] for name in languages[1:]),
        ]
        for i in used
    ]
    (folder / "captions.csv").write_text(csv_text(columns, rows), encoding="utf-8")
    steps = {"high": "1", "medium": "2", "low": "3"}
    distances = [
        [name, *("0" if i == j else steps[similarity(i, j)] for j in range(len(concepts)))]
        for i, name in enumerate(concepts)
    ]
    text = csv_text(["concept", *concepts], distances)
    (folder / "distances.csv").write_text(text, encoding="utf-8")


def write_variants(folder: pathlib.Path, groups: Sequence[Group]) -> None:
    """Write the groups with intruders that are not what the published column holds."""
    folder.mkdir()
    from_one = [group.intruder for group in groups]
    from_zero = [place - 1 for place in from_one]
    half = len(groups) // 2
    mixed = from_zero[:half] + from_one[half:]
    for name, numbers in (("one", from_one), ("zero", from_zero), ("mixed", mixed)):
        (folder / f"{name}.csv").write_text(groups_csv(groups, numbers), encoding="utf-8")
