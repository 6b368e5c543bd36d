"""Bipartite matching by augmenting paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from osc_placement.engine import record

Options = Sequence[record.ProviderRecord]


class Matching:
    """A matching of choices to providers; each provider can be used ``uses`` times.

    ``step`` is called for each choice that is rematched, so that it can stop a long matching.
    """

    def __init__(
        self,
        choices: Sequence[Options],
        uses: Callable[[record.ProviderRecord], int],
        step: Callable[[], None],
    ) -> None:
        self._choices = choices
        self._uses = uses
        self._step = step
        self._free: dict[str, int] = {}
        self._matched: dict[str, dict[int, None]] = {}

    def exists(self) -> bool:
        """Whether every choice can have one of its providers."""
        return all(map(self._augment, range(len(self._choices))))

    def _augment(self, choice: int) -> bool:
        """Match one more choice; rematches others if that helps."""
        # {uuid: the choice that wants this provider}, along the augmenting path.
        wanting: dict[str, int] = {}
        matched_to: dict[int, str] = {}
        queue = [choice]
        for moving in queue:
            self._step()
            for provider in self._choices[moving]:
                uuid = provider.uuid
                if uuid in wanting:
                    continue
                wanting[uuid] = moving
                if uuid not in self._free:
                    self._free[uuid], self._matched[uuid] = int(self._uses(provider)), {}
                if self._free[uuid] > 0:
                    self._free[uuid] -= 1
                    self._move(uuid, wanting, matched_to)
                    return True
                for other in self._matched[uuid]:
                    if other not in matched_to:
                        matched_to[other] = uuid
                        queue.append(other)
        return False

    def _move(self, uuid: str, wanting: Mapping[str, int], matched_to: Mapping[int, str]) -> None:
        """Rematch all choices on the augmenting path."""
        while True:
            choice = wanting[uuid]
            self._matched[uuid][choice] = None
            if choice not in matched_to:
                return
            uuid = matched_to[choice]
            del self._matched[uuid][choice]
