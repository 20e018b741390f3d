"""Reading `--config=FILE[:arg] --config.key=value`, with one-line errors."""

import importlib.util
import pathlib
import sys
from collections.abc import Callable, Sequence

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from mmgen.errors import UserError
from mmgen.settings.suggest import closest

CONFIG_FOLDER = pathlib.Path("configs")


def load_config(name: str) -> ConfigDict:
    """The config of `FILE.py[:argument]`, without command-line overrides.

    Raises:
      UserError: no such file, a file without `get_config`, or an unknown argument.
    """
    path_text, _, argument = name.partition(":")
    path = pathlib.Path(path_text)
    if not path.is_file():
        known = [str(p) for p in sorted(CONFIG_FOLDER.glob("*.py"))]
        raise UserError(
            f"There is no config file '{path}'{closest(str(path), known)}; "
            "`python -m mmgen.main --list` shows those that come with the code."
        )
    spec = importlib.util.spec_from_file_location(f"config_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"The config file '{path}' is no Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise UserError(f"The config file '{path}' defines no get_config(argument).")
    return module.get_config(argument)


def flat_keys(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """Dotted path -> value of every leaf of a config."""
    flat: dict[str, object] = {}
    for key in config:
        value = config[key]
        path = f"{prefix}{key}"
        if isinstance(value, ConfigDict):
            flat.update(flat_keys(value, f"{path}."))
        else:
            flat[path] = value
    return flat


def check_overrides(argv: Sequence[str]) -> None:
    """Refuses a missing config file and unknown keys before absl sees them.

    Raises:
      UserError: one sentence naming the argument and the nearest known one.
    """
    name = next((a.split("=", 1)[1] for a in argv if a.startswith("--config=")), None)
    if name is None:
        return
    known = flat_keys(load_config(name))
    groups = {key.rsplit(".", 1)[0] for key in known if "." in key}
    for argument in argv:
        if not argument.startswith("--config."):
            continue
        key = argument.removeprefix("--config.").split("=", 1)[0]
        if key in groups:
            raise UserError(
                f"--config.{key} is a group of keys; set one of them, "
                f"e.g. --config.{next(k for k in known if k.startswith(key + '.'))}=VALUE."
            )
        if key not in known:
            raise UserError(f"There is no key 'config.{key}'{closest(key, known)}.")


def parse_config(arguments: Sequence[str]) -> ConfigDict:
    """The config of `--config=FILE[:argument] --config.key=value ...`, as `mmgen.main` reads it.

    Raises:
      UserError: no config file, an unknown key, a value of the wrong type, another argument.
    """
    check_overrides(arguments)
    argv = ["mmgen", *arguments]
    values = flags.FlagValues()
    config_flags.DEFINE_config_file(
        "config", None, "The experiment.", values, lock_config=True, sys_argv=argv
    )
    try:
        rest = values(argv)[1:]
    except flags.Error as error:
        raise UserError(str(error)) from None
    if rest or values["config"].value is None:
        wrong = f"Unexpected argument '{rest[0]}'; give" if rest else "Give"
        raise UserError(f"{wrong} --config=FILE and overrides as --config.key=value.")
    return values["config"].value


def list_configs() -> str:
    """One line per config file: its path and the first line of its docstring."""
    lines = []
    for path in sorted(CONFIG_FOLDER.glob("*.py")):
        first = path.read_text().lstrip().removeprefix('"""').split("\n", 1)[0]
        lines.append(f"{path!s:42} {first}")
    return "\n".join(lines)


def run_app(main: Callable[[Sequence[str]], int | None], usage: str) -> None:
    """`absl.app.run` whose user errors are one line on stderr and exit status 2."""

    def parse(argv: list[str]) -> list[str]:
        if any(a in ("--help", "-h", "--helpfull", "-help") for a in argv[1:]):
            print(usage.strip())
            sys.exit(0)
        try:
            check_overrides(argv[1:])
            rest = flags.FLAGS(argv)
            if len(rest) > 1:
                raise UserError(f"Unexpected argument '{rest[1]}'; options start with '--'.")
            return rest
        except (UserError, flags.Error) as error:
            fail(error)
            raise AssertionError from error

    def guarded(argv: Sequence[str]) -> int | None:
        # Orbax tells of every step it takes; warnings are enough.
        logging.set_verbosity(logging.WARNING)
        try:
            return main(argv)
        except UserError as error:
            fail(error)
            return 2

    app.run(guarded, flags_parser=parse)


def fail(error: Exception) -> None:
    """Prints the one sentence of a user error and leaves with status 2."""
    print(f"mmgen: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(2)
