"""Stages for the tests of the accelerator check: one works, one fails, one never ends."""

import argparse
import json
import pathlib
import sys
import time

parser = argparse.ArgumentParser()
for name in ("stage", "out", "scale"):
    parser.add_argument(f"--{name}")
arguments = parser.parse_args()
print(f"this is {arguments.stage}")
found = {"facts": {"device": "a stand-in"}, "peak_float32_default": 2e12}
(pathlib.Path(arguments.out) / f"{arguments.stage}.json").write_text(json.dumps(found))
if arguments.stage == "fails":
    sys.exit(3)
if arguments.stage == "hangs":
    time.sleep(60)
