"""A model or judge of a run: its store, and the backend, which is opened only when it is needed."""

from collections.abc import Sequence

from etils import epath
from ml_collections import ConfigDict

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting.backends import open_backend
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.requests import Backend
from mmgen.prompting.store import BACKEND, AnswerStore

FOLDERS = {"model": "answers", "judge": "judge"}
"""Role -> its folder in a workdir."""


class Respondent:
    """Whom stages of one role ask.

    Args:
      role: "model" or "judge".
      config: the run's resolved config.
      workdir: the run's folder, whose lock is held.
      asked: may it be asked? Otherwise it is not opened, and its store says what it is.

    Attributes:
      store: its answers.
    """

    def __init__(self, role: str, config: ConfigDict, workdir: Workdir, *, asked: bool):
        self._role = role
        self._asked = asked
        self._config = config
        self._workdir = workdir
        self._backend: Backend | None = None
        self.store = AnswerStore(workdir, FOLDERS[role])

    @property
    def traits(self) -> Traits:
        """What it is; of a run that has asked it before, without opening it.

        Raises:
          UserError: it cannot be opened, or may not and was never asked.
        """
        stored = self._workdir.file(f"{FOLDERS[self._role]}/{BACKEND}")
        if not self._asked or (self._backend is None and stored.exists()):
            return self.store.traits()
        return Traits.of(self.backend)

    @property
    def backend(self) -> Backend:
        """The opened backend.

        Raises:
          UserError: none is named, it cannot be opened, or it is not the one that answered before.
        """
        if self._backend is None:
            backend = open_respondent(self._role, self._config)
            self.store.claim(Traits.of(backend))
            self._backend = backend
        return self._backend

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()


def open_respondent(role: str, config: ConfigDict) -> Backend:
    """The backend that `config.model` or `config.judge` names.

    Raises:
      UserError: none is named, or it cannot be opened.
    """
    chosen = config[role].to_dict()
    spec = chosen.pop("spec")
    if not spec:
        raise UserError(
            f"This benchmark needs a {role}; give {role}=SPEC after the config file's colon, for "
            "instance fake:perfect, or config.only='generate' for the answers alone."
        )
    options = config.backend.to_dict() | chosen
    return open_backend(spec, **options)


def other_stores(paths: Sequence[epath.PathLike], role: str) -> list[AnswerStore]:
    """Stores of that role in other workdirs.

    Raises:
      UserError: a workdir has no answers of a model; those of a judge may be missing, since its
        run may have been one of `config.only="generate"`.
    """
    stores = []
    for path in paths:
        store = AnswerStore(Workdir(path), FOLDERS[role], read_only=True)
        if role == "model" and not len(store):
            raise UserError(
                f"config.reuse names {path}, which holds no answers of a model; name the workdir "
                "of a run."
            )
        stores.append(store)
    return stores
