"""A data set of a few windows that can be scored by hand."""

from mmgen.data.compact.classes import ClassList
from mmgen.data.compact.dataset import CompactWriter, open_compact
from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.samples import make_instance

VERBS = ClassList(
    ("take", "put", "wash", "cut", "remove"),
    {"take": 0, "pick-up": 0, "put": 1, "put-down": 1, "put-in": 1, "wash": 2, "rinse": 2}
    | {"cut": 3, "slice": 3, "remove": 4, "take-off": 4},
)
NOUNS = ClassList(
    ("knife", "cup", "onion", "board", "clothes", "lid"),
    {"knife": 0, "cup": 1, "onion": 2, "onion:spring": 2, "board:chopping": 3, "clothes": 4}
    | {"clothe": 5, "lid": 5},
)
TRAIN = (
    ("V1", "take knife", "wash cup", "pick-up onion:spring", "put-down cup"),
    ("V1", "wash cup", "pick-up onion:spring", "put-down cup", "cut onion"),
    ("V2", "wash cup", "take knife", "pick-up cup", "put-down knife"),
    ("V2", "take knife", "wash cup", "pick-up onion", "put-down cup"),
)
TEST = (
    ("V3", "take knife", "wash onion", "pick-up onion:spring", "slice knife"),
    ("V3", "wash cup", "wash lid", "pick-up cup", "put-down cup"),
    ("V4", "take onion", "wash knife", "take-off lid", "wash onion"),
)


def clip(video, number, verb, noun):
    spoken = " ".join([*verb.split("-"), *reversed(noun.split(":"))])
    verb_class, noun_class = VERBS.class_of[verb], NOUNS.class_of[noun]
    times = ("00:00:00.00", "00:00:01.00", 50 * number, 50 * number + 40)
    return Clip(
        f"{video}_{number}", video, number, *times, spoken, verb, verb_class, noun, noun_class,
        (noun,), False,
    )  # fmt: skip


def window(first, video, *texts):
    """The instance of four clips, "VERB NOUN" each, numbered from `first`."""
    return make_instance([clip(video, first + n, *text.split()) for n, text in enumerate(texts)])


def windows(rows, start=0):
    """Instances of rows like `TRAIN`, clips numbered from `start`."""
    return [window(start + 10 * n, *row) for n, row in enumerate(rows)]


def make_dataset(root, splits=None, verbs=VERBS, nouns=NOUNS, world=False, own=False, **settings):
    """The data set of some splits (the small ones by default) on disk, opened.

    Args:
      own: neither a world nor EPIC-KITCHENS.
    """
    splits = splits or {
        "train": windows(TRAIN),
        "validation": windows(TEST, start=500),
        "test": windows(TEST, start=1000),
    }
    settings = {"split": "mcd", "compounds": "string", "target_dc": 1.0} | settings
    stem = "kitchen_world" if world else "mine" if own else "compact"
    info = {
        "name": f"{stem}_{settings['split']}",
        "builder": "none",
        "settings": settings,
        "data_seed": 0,
        "licences": ["none"],
        "sources": []
        if world
        else ["train.csv sha256:0" if own else "EPIC_100_train.csv sha256:0"],
        "paper_scale": False,
        "world": world,
    }
    with CompactWriter(root / info["name"], info) as writer:
        writer.write_classes(verbs, nouns)
        for name, instances in splits.items():
            writer.write_split(name, instances)
    return open_compact(root / info["name"])
