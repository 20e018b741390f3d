"""What a user asks a builder for."""

import pathlib
from typing import Any, NamedTuple

from mmgen.errors import UserError


class BuildRequest(NamedTuple):
    """Arguments of `python -m mmgen.data.build`.

    Attributes:
      name: name in the table of builders, the first argument.
      out: folder that gets the data set as a sub-folder of its name.
      raw: folder of raw files; None for worlds.
      train_from: released part that serves as training stream, where the real one is missing.
      features: feature store to attach; None allows text-only runs alone.
      tokenizer: vocab.txt of bert-base-uncased or its folder; None searches for one.
      pairs: folder of the held-out concept pairs; None leaves pairs out.
      data_seed: seed of worlds and of splits.
      force: replace a finished data set.
      settings: further `--set key=value` choices of the builder.
    """

    name: str
    out: pathlib.Path
    raw: pathlib.Path | None = None
    train_from: str | None = None
    features: pathlib.Path | None = None
    tokenizer: str | None = None
    pairs: pathlib.Path | None = None
    data_seed: int = 0
    force: bool = False
    settings: dict[str, Any] = {}  # noqa: RUF012 - never written to

    def raw_folder(self) -> pathlib.Path:
        """The folder `raw`; UserError if it was not given or is none."""
        if self.raw is None:
            raise UserError(f"{self.name} is built from files: give their folder with --raw")
        if not self.raw.is_dir():
            raise UserError(f"--raw {self.raw} is not a folder")
        return self.raw

    def chosen(self, defaults: dict[str, Any]) -> dict[str, Any]:
        """`settings` over `defaults`; UserError for a key or a type that is not in them.

        Where a number with a fraction is expected, 1 is one, too.
        """
        given = {
            key: float(value) if type(value) is int and type(defaults.get(key)) is float else value
            for key, value in self.settings.items()
        }
        for key, value in given.items():
            if key not in defaults:
                known = ", ".join(defaults) or "none"
                raise UserError(f"--set {key}: {self.name} has no such setting, it has: {known}")
            if not isinstance(value, type(defaults[key])):
                raise UserError(
                    f"--set {key}={value}: expected {type(defaults[key]).__name__}, "
                    f"for example {defaults[key]!r}"
                )
        return defaults | given
