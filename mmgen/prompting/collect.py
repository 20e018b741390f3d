"""Goes through a benchmark's stages: asks what is wanted, reads the rest from the stores."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from mmgen.core.workdir import Workdir
from mmgen.prompting.benchmark import Benchmark, Stage, Traits
from mmgen.prompting.generate import Tally, ask, missing, tally
from mmgen.prompting.requests import Answer, Request, request_key
from mmgen.prompting.respondent import Respondent, other_stores
from mmgen.prompting.store import take_over
from mmgen.settings.resolve_prompting import shard

ASKED = {"": ("model", "judge"), "generate": ("model",), "judge": ("judge",), "score": ()}
"""`config.only` -> the roles whose stages are asked."""


class Collected(NamedTuple):
    """What a pass over the stages gave.

    Attributes:
      replies: stage -> item -> answer.
      tallies: stage -> how it stands.
      traits: role -> what was asked.
    """

    replies: dict[str, Mapping[str, Answer]]
    tallies: dict[str, Tally]
    traits: dict[str, Traits]

    @property
    def failed(self) -> int:
        """Requests of all stages that failed."""
        return sum(one.failed for one in self.tallies.values())

    @property
    def lacking(self) -> int:
        """Requests of all stages without an answer."""
        return sum(one.requests - one.answered for one in self.tallies.values())


def collect(config: ConfigDict, benchmark: Benchmark, workdir: Workdir) -> Collected:
    """Asks the stages that `config.only` wants; those of the judge are left out after "generate".

    A model is opened only if it may be asked, and has something to answer or was never asked.

    Raises:
      UserError: a model cannot be opened or cannot be asked so, or may not be asked and never was.
    """
    asked = ASKED[config.only]
    respondents: dict[str, Respondent] = {}
    found = Collected({}, {}, {})
    try:
        for stage in benchmark.stages:
            if config.only == "generate" and stage.role == "judge":
                continue
            if stage.role not in respondents:
                respondents[stage.role] = Respondent(
                    stage.role, config, workdir, asked=stage.role in asked
                )
            one = respondents[stage.role]
            requests = _requests(stage, one.traits, found)
            found.traits[stage.role] = one.traits
            found.tallies[stage.name] = (
                _ask(config, stage, requests, one)
                if stage.role in asked
                else tally(_keyed(requests, one.traits), one.store)
            )
            found.replies[stage.name] = one.store.replies(requests, one.traits.identity)
    finally:
        for one in respondents.values():
            one.close()
    return found


def _requests(stage: Stage, traits: Traits, found: Collected) -> Sequence[Request]:
    requests = stage.requests(traits, found.replies)
    items = {request.item for request in requests}
    if len(items) != len(requests):
        raise ValueError(f"stage {stage.name}: {len(requests)} requests, {len(items)} names")
    return requests


def _keyed(requests: Sequence[Request], traits: Traits) -> dict[str, Request]:
    return {request_key(request, traits.identity): request for request in requests}


def _ask(config: ConfigDict, stage: Stage, requests: Sequence[Request], one: Respondent) -> Tally:
    which, count = shard(config)
    if count > 1:
        requests = [r for r in requests if _part_of(r.item, count) == which]
    keyed = _keyed(requests, one.traits)
    for other in other_stores(config.reuse, stage.role):
        take_over(one.store, other, ((key, stage.name, r.item) for key, r in keyed.items()))
    if not any(missing(keyed, one.store)):
        return tally(keyed, one.store)
    return ask(stage.name, requests, one.backend, one.store, progress=config.logging.progress)


def _part_of(item: str, count: int) -> int:
    """The part an item belongs to, whatever other items there are."""
    return int.from_bytes(hashlib.sha256(item.encode()).digest()[:4], "big") % count
