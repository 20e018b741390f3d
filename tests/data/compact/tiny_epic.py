"""A small csv in EPIC-KITCHENS' columns, and the class lists that belong to it."""

import csv
import random

VERBS = {
    "take": ["take", "pick-up"],
    "put": ["put", "put-down"],
    "wash": ["wash", "rinse"],
    "cut": ["cut", "slice"],
    "open": ["open"],
}
NOUNS = {
    "knife": ["knife", "knife:bread"],
    "cup": ["cup"],
    "onion": ["onion", "onion:spring"],
    "pan": ["pan"],
    "board": ["board:chopping"],
    "tap": ["tap"],
}
COLUMNS = (
    "narration_id,participant_id,video_id,narration_timestamp,start_timestamp,stop_timestamp,"
    "start_frame,stop_frame,narration,verb,verb_class,noun,noun_class,all_nouns,all_noun_classes"
).split(",")


def class_of(name, classes):
    return next(n for n, key in enumerate(classes) if name in (key, *classes[key]))


def clip_row(video, number, verb, noun, *, more=(), start=None):
    """One row; clips follow each other every two seconds of 50 frames."""
    start = number * 100 if start is None else start
    nouns = [noun, *more]
    spoken = " ".join(reversed(noun.split(":")))
    return {
        "narration_id": f"{video}_{number}",
        "participant_id": video.partition("_")[0],
        "video_id": video,
        "narration_timestamp": "",
        "start_timestamp": f"00:{start // 3000:02}:{start // 50 % 60:02}.00",
        "stop_timestamp": f"00:{start // 3000:02}:{start // 50 % 60:02}.90",
        "start_frame": str(start),
        "stop_frame": str(start + 45),
        "narration": f"{verb.replace('-', ' ')} {spoken}",
        "verb": verb,
        "verb_class": str(class_of(verb, VERBS)),
        "noun": noun,
        "noun_class": str(class_of(noun, NOUNS)),
        "all_nouns": str(nouns),
        "all_noun_classes": str([class_of(name, NOUNS) for name in nouns]),
    }


def rows(videos=12, clips=60, seed=0):
    """Clips whose nouns tend to stay, so that many windows pass the filters."""
    generator = random.Random(seed)
    verbs = [name for names in VERBS.values() for name in names]
    nouns = [name for names in NOUNS.values() for name in names]
    made = []
    for video in range(videos):
        recent = generator.sample(nouns, 3)
        for number in range(clips):
            if generator.random() < 0.3:
                recent = [*recent[1:], generator.choice(nouns)]
            made.append(
                clip_row(
                    f"P{video % 4:02}_{video:02}",
                    number,
                    generator.choice(verbs),
                    generator.choice(recent),
                )
            )
    return made


def write_csv(path, made, columns=COLUMNS):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(made)
    return path


def write_classes(path, classes):
    made = [
        {"id": n, "key": key, "instances": str(names), "category": "x"}
        for n, (key, names) in enumerate(classes.items())
    ]
    return write_csv(path, made, ["id", "key", "instances", "category"])


def write_raw(folder, made=None):
    """A whole `--raw` folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "train.csv", rows() if made is None else made)
    write_classes(folder / "verb_classes.csv", VERBS)
    write_classes(folder / "noun_classes.csv", NOUNS)
    return folder
