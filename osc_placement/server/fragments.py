"""The JSON of providers, kept until what it shows changes.

Records and usages never change: a write replaces them. So a fragment is valid for as long as the
state has the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from osc_placement.engine import record, state

#: Providers in one part of a list, which is encoded again when one of them changes.
BLOCK = 64
#: Blocks that are kept.
MAX_BLOCKS = 1 << 10
#: Summaries that are kept.
MAX_SUMMARIES = 1 << 16

#: Encodes one provider.
EncodeRecord = Callable[[record.ProviderRecord], bytes]
EncodeUuid = Callable[[str], bytes]


class Block(NamedTuple):
    """Providers that follow each other in a list, as JSON; ``latest`` is their last update."""

    providers: list[record.ProviderRecord]
    encoded: bytes
    latest: float


class _Summary(NamedTuple):
    provider: record.ProviderRecord
    used: Mapping[str, int]
    encoded: bytes


class Fragments:
    """What a server keeps of earlier responses."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, str], Block] = {}
        self._summaries: dict[tuple[int, str], _Summary] = {}

    def blocks(
        self, providers: list[record.ProviderRecord], form: int, encode: EncodeRecord
    ) -> Iterator[Block]:
        """The blocks of a list of providers; ``encode`` depends on ``form`` only."""
        for start in range(0, len(providers), BLOCK):
            members = providers[start : start + BLOCK]
            key = form, members[0].uuid
            block = self._blocks.get(key)
            if block is None or block.providers != members:
                latest = max(provider.updated_at for provider in members)
                block = Block(members, b",".join(map(encode, members)), latest)
                if len(self._blocks) >= MAX_BLOCKS:
                    self._blocks.clear()
                self._blocks[key] = block
            yield block

    def summaries(
        self, base: state.State, uuids: Iterable[str], form: int, encode: EncodeUuid
    ) -> Iterator[bytes]:
        """The summaries of providers; ``encode`` depends on provider, usage and ``form`` only."""
        kept, providers, used_of = self._summaries, base.providers, base.used
        for uuid in uuids:
            provider, used = providers[uuid], used_of(uuid)
            found = kept.get((form, uuid))
            if found is None or found.provider is not provider or found.used is not used:
                if len(kept) >= MAX_SUMMARIES:
                    kept.clear()
                found = kept[form, uuid] = _Summary(provider, used, encode(uuid))
            yield found.encoded
