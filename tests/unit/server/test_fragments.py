"""Responses show every change, although the server keeps their parts."""

from __future__ import annotations

import pytest

from osc_placement import server
from osc_placement.server import fragments
from tests.support.in_process import ask
from tests.support.sequences import generate, in_process

LENGTH = 150
VERSIONS = ("placement 1.10", "placement 1.20", "placement 1.28", "placement 1.39")


def paths(app: server.App) -> list[str]:
    """A list of providers, and candidates for each class, with the summaries of most trees."""
    with app.repository.read() as base:
        return [
            "/resource_providers",
            *(f"/allocation_candidates?resources={name}:1" for name in base.with_class),
        ]


@pytest.mark.parametrize("seed", range(4))
def test_every_change_of_a_provider_or_its_usage_is_shown(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "BLOCK", 3)
    monkeypatch.setattr(fragments, "MAX_BLOCKS", 4)
    monkeypatch.setattr(fragments, "MAX_SUMMARIES", 10)
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
    summaries = 0
    for _ in range(LENGTH):
        in_process.send(app, generator.next())
        # Nothing is kept from earlier responses.
        fresh = server.App(app.repository)
        for path in paths(app):
            for version in VERSIONS:
                kept, new = (
                    ask(each, path, openstack_api_version=version) for each in (app, fresh)
                )
                assert kept.status_int == 200
                assert kept.body == new.body
                if b'"links"' in kept.body:
                    assert kept.headers.get("last-modified") == new.headers.get("last-modified")
                summaries += kept.body.count(b"root_provider_uuid")
    assert summaries > LENGTH
