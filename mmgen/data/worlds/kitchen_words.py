"""Words of `kitchen_world`: verb and noun classes, three strings each, in EPIC-KITCHENS' spelling.

A verb of several words is joined by "-", a noun stands head first with ":" before its modifier.
The first string of a class is its key and the most frequent one.
"""

import itertools

FORMS = (0.6, 0.3, 0.1)
"""How often a class is called by its first, second and third string."""

SOUND_GROUPS = ("water", "clatter", "blade", "click", "rustle")
"""What can be heard of verbs: four classes each, in the order of `VERBS`."""

VERBS: tuple[tuple[str, str, str], ...] = (
    ("wash", "rinse", "clean-off"),
    ("pour", "pour-out", "tip-in"),
    ("fill", "fill-up", "top-up"),
    ("drain", "strain", "drip-dry"),
    ("take", "pick-up", "grab"),
    ("put", "put-down", "place"),
    ("stack", "pile-up", "heap"),
    ("hang", "hang-up", "hook"),
    ("cut", "slice", "chop"),
    ("peel", "scrape-off", "skin"),
    ("grate", "shred", "rasp"),
    ("mash", "crush", "squash"),
    ("open", "pull-open", "unlock"),
    ("close", "shut", "push-shut"),
    ("turn-on", "switch-on", "start"),
    ("turn-off", "switch-off", "stop"),
    ("mix", "stir", "whisk"),
    ("wipe", "wipe-down", "dry"),
    ("move", "push-aside", "shift"),
    ("check", "look-at", "inspect"),
)

NOUNS: tuple[tuple[str, str, str], ...] = (
    ("tap", "tap:water", "faucet"),
    ("plate", "dish", "plate:dinner"),
    ("knife", "knife:bread", "blade"),
    ("pan", "pan:frying", "skillet"),
    ("lid", "lid:pan", "cover"),
    ("cup", "mug", "cup:tea"),
    ("onion", "onion:spring", "shallot"),
    ("spoon", "spoon:wooden", "ladle"),
    ("fridge", "refrigerator", "icebox"),
    ("bowl", "bowl:mixing", "basin"),
    ("cupboard", "cabinet", "cupboard:wall"),
    ("potato", "potato:sweet", "spud"),
    ("board:chopping", "board:cutting", "board:bread"),
    ("bottle", "bottle:water", "flask"),
    ("drawer", "drawer:cutlery", "tray:cutlery"),
    ("cloth", "towel:tea", "rag"),
    ("glass", "glass:wine", "tumbler"),
    ("oven", "stove", "cooker"),
    ("bin", "bin:rubbish", "trash"),
    ("egg", "egg:boiled", "yolk"),
    ("tomato", "tomato:cherry", "tomato:plum"),
    ("sponge", "pad:scouring", "scrubber"),
    ("bread", "loaf", "toast"),
    ("kettle", "kettle:electric", "boiler"),
    ("cheese", "cheddar", "cheese:cream"),
    ("fork", "fork:salad", "prongs"),
    ("box", "container", "box:lunch"),
    ("sauce", "ketchup", "sauce:soy"),
    ("pepper", "pepper:red", "chilli"),
    ("rice", "rice:brown", "risotto"),
)
"""From the most frequent class to the rarest."""


def strings(classes: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
    """All strings; string `f` of class `c` is number `3 c + f`."""
    return tuple(itertools.chain.from_iterable(classes))
