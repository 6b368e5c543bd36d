# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import datetime
import itertools
import random

import pytest

from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import guest_search, server_moves
from osc_placement.workflows.cloud.server_moves import Cost, Phase
from tests.support import moving_cloud, nova_words
from tests.support.clouds import read
from tests.support.moving_cloud import DESTINATION, MIGRATION, SERVER, SOURCE, Moving, View

NOW = datetime.datetime(2026, 1, 1, 11, tzinfo=datetime.UTC)
ALL = [(shown, group) for shown, group in moving_cloud.truths().items()]


def _hosts(keys: str, source: str = SOURCE, destination: str = DESTINATION) -> set[str]:
    return {{"s": source, "d": destination}[key] for key in keys}


def _move(view: View) -> server_moves.ServerMove:
    reading = view.reading()
    return server_moves.move_of(reading, reading.servers[SERVER])


@pytest.mark.parametrize(("shown", "group"), ALL, ids=[str(shown) for shown, _ in ALL])
def test_every_host_that_may_have_the_guest_counts(
    shown: tuple[object, ...], group: list[View]
) -> None:
    move = _move(group[0])
    possible = set[str]().union(*(_hosts(view.step.guest) for view in group))
    needed = set[str]().union(*(_hosts(view.step.needed) for view in group))
    assert possible <= moving_cloud.guest_hosts(move), "a yes here would end the guest"
    lost = {loss.host for loss in move.losses}
    # A live migration that was ended by hand goes nowhere: its destination loses nothing.
    ended = move.phase is Phase.AT_REST
    assert possible | (set() if ended else needed) <= lost
    # No host counts that no truth of this view names, nor that this view leaves open.
    certain = {loss.host for loss in move.losses if loss.is_certain}
    assert certain <= possible | needed, "a no here would hold back an empty host"


@pytest.mark.parametrize(
    "view",
    [
        view
        for view in moving_cloud.views()
        if (view.step.status, view.step.task, view.step.vm) == (None, None, "active")
        and view.step.host
    ],
)
def test_a_server_at_rest_is_on_one_host(view: View) -> None:
    move = _move(view)
    assert moving_cloud.guest_hosts(move) == _hosts(view.step.guest)
    assert all(loss.is_certain for loss in move.losses)


@pytest.mark.parametrize(
    "name", ["live", "live, rolled back", "live, aborted", "live, refused", "cold, confirmed"]
)
def test_a_move_that_is_over_leaves_a_server_at_rest(name: str) -> None:
    move_type, steps = moving_cloud.PROTOCOLS[name]
    move = _move(View(move_type, steps[-1]))
    assert move.phase is Phase.AT_REST
    assert moving_cloud.guest_hosts(move) == _hosts(steps[-1].guest)
    assert not move.moving


def test_random_clouds_agree_with_counting() -> None:
    """Many servers move at once, between random hosts: each host has what counting says."""
    generator, all_views = random.Random(5), list(moving_cloud.views())
    by_shown = moving_cloud.truths()
    for _ in range(60):
        hosts = tuple(f"cmp-{number}" for number in range(1, generator.randint(3, 7)))
        moving, expected = [], {host: set[str]() for host in hosts}
        for number in range(generator.randint(1, 12)):
            view = generator.choice(all_views)
            source, destination = generator.sample(hosts, 2)
            name = f"vm-{number}"
            moving.append(Moving(view, source, destination, name, f"move of {name}"))
            for truth in by_shown[view.shown()]:
                keys = truth.step.guest
                if _move(view).phase is not Phase.AT_REST:
                    keys += truth.step.needed
                for host in _hosts(keys, source, destination):
                    expected[host].add(uuid_of(name))
        reading = moving_cloud.reading(moving, read.read(moving_cloud.hosts(*hosts)))
        losses = server_moves.losses_on(reading, reading.hosts.nodes)
        for node in reading.hosts.nodes:
            named = {move.server.uuid for move, _ in losses[node.uuid]}
            sure = {move.server.uuid for move, loss in losses[node.uuid] if loss.is_certain}
            assert expected[node.host] <= named
            assert sure <= expected[node.host]


_WORDS = nova_words.read()
_OVER = _WORDS["over"]
_OPEN = sorted({*_WORDS["statuses"]} - {*_OVER})
_TASKS = (None, *_WORDS["tasks"])
#: The statuses in which the source has no guest, and those in which the destination may have one.
_LEFT = {"finished", "confirming"}
_ARRIVED = {"running", "running (post-copy)", "post-migrating", "finished", "confirming"}


def _where(step: moving_cloud.Step, move_type: str) -> str:
    """Where the guest may be, by what an open migration means and not by the model."""
    possible = step.host
    if step.status not in _LEFT:
        possible += "s"
    arrived = _ARRIVED | {"reverting"} | ({"pre-migrating"} if move_type == "evacuation" else set())
    return possible + ("d" if step.status in arrived else "")


@pytest.mark.parametrize("move_type", _WORDS["types"])
def test_contradictions_leave_no_host_out_that_may_have_the_guest(move_type: str) -> None:
    """Each status beside each task, host and holder, whether nova can come to it or not."""
    for status, task, host, server, migration in itertools.product(
        (*_OPEN, "teleporting", *_OVER), _TASKS, "sd", ("", "s", "d", "sd"), ("", "s")
    ):
        step = moving_cloud.Step(status, task, "active", host, server, migration, host)
        view = View(move_type, step)
        move = _move(view)
        assert moving_cloud.guest_hosts(move) >= _hosts(host), view
        if status in _OVER:
            continue
        ended = (move_type, status, task, server, migration) == (
            ("live-migration", "accepted", None, host, "")
        )
        assert (
            move.phase is Phase.AT_REST
            if ended
            else moving_cloud.guest_hosts(move)
            >= _hosts(_where(step, move_type) if status != "teleporting" else "sd")
        ), view
        # Without a task, no such answer is certain, except beside a wait for a person.
        if task is None and not ended and status != "finished":
            assert not any(loss.is_certain for loss in move.losses if loss.cost is Cost.GUEST), view


def test_the_words_of_the_model_are_those_of_nova() -> None:
    assert server_moves.TABLE.keys() == {*_WORDS["types"]}
    assert {status for rows in server_moves.TABLE.values() for status in rows} == {*_OPEN}
    assert {*_WORDS["tasks"]} >= server_moves.MIGRATION_TASKS
    assert {*_WORDS["states"]} >= server_moves.STATES_ON_NO_HOST
    for status in _WORDS["statuses"]:
        migration = values.Migration("", "", "", status)
        assert migration.is_over is (status in _OVER), status


def test_the_moves_that_are_played_use_words_of_nova() -> None:
    for view in moving_cloud.views():
        assert view.type in ("", *_WORDS["types"])
        assert view.step.status in (None, *_WORDS["statuses"])
        assert view.step.task in _TASKS
        assert view.step.vm in _WORDS["states"]


def test_a_cloud_that_is_filled_in_place_has_the_moves_of_a_new_one() -> None:
    """After each change, and in a cloud as it would be, no move is one from before."""
    generator, all_views = random.Random(7), list(moving_cloud.views())
    for view in all_views:
        cloud = view.reading()
        for _ in range(6):
            other = generator.choice(all_views).reading()
            change = generator.choice(["all", "consumers", "servers", "what if"])
            if change == "all":
                cloud.set_allocations(other.allocations, {})
            elif change == "consumers":
                uuids = {*cloud.allocations, *other.allocations}
                cloud.set_consumers({uuid: other.consumer(uuid) for uuid in uuids})
            elif change == "servers":
                cloud.set_servers(other.servers)
            else:
                cloud = cloud.with_allocations({**cloud.allocations, **other.allocations})
            new = dataclasses.replace(cloud)
            for server in cloud.servers.values():
                assert server_moves.move_of(cloud, server) == server_moves.move_of(new, server), (
                    change
                )
            assert cloud.used == new.used


def test_an_unknown_status_counts_on_both_hosts() -> None:
    step = moving_cloud.Step("teleporting", "migrating", "active", "s", "d", "s", "s")
    assert moving_cloud.guest_hosts(_move(View("live-migration", step))) == {SOURCE, DESTINATION}


def test_a_completed_migration_of_a_server_that_still_migrates_is_a_contradiction() -> None:
    step = moving_cloud.Step("completed", "migrating", "active", "s", "d", "", "d")
    move = _move(View("live-migration", step))
    assert move.phase is Phase.DISAGREES
    assert moving_cloud.guest_hosts(move) == {SOURCE, DESTINATION}
    assert "may run on either host" in move.moving.text


def test_a_server_that_was_unshelved_on_its_former_host_is_at_rest() -> None:
    step = moving_cloud.Step("completed", None, "active", "s", "s", "", "s")
    move = _move(View("live-migration", step))
    assert (move.phase, moving_cloud.guest_hosts(move)) == (Phase.AT_REST, {SOURCE})


def test_leftovers_of_a_migration_that_is_over_are_leaked() -> None:
    step = moving_cloud.Step("completed", None, "active", "d", "d", "s", "d")
    reading = View("live-migration", step).reading()
    move = server_moves.move_of(reading, reading.servers[SERVER])
    assert move.phase is Phase.OVER
    assert [holder.is_leaked for holder in move.holders] == [False, True]
    (holder,) = server_moves.holders_on(reading, uuid_of(SOURCE))
    assert holder.is_leaked
    assert holder.server == reading.servers[SERVER]
    for migrations, is_leaked in ((reading.migrations, True), ({}, False)):
        without = dataclasses.replace(reading, servers={}, migrations=migrations)
        (holder,) = server_moves.holders_on(without, uuid_of(SOURCE))
        assert (holder.server, holder.is_leaked) == (None, is_leaked)


@pytest.mark.parametrize("view", list(moving_cloud.views()), ids=lambda view: str(view.shown()))
def test_who_holds_a_shared_pool_needs_it_while_its_server_has_a_host(view: View) -> None:
    """Which hosts share the pool is not known: only what is over, or on no host, is leaked."""
    reading, pool = view.reading(), "f0000000-0000-0000-0000-000000000001"
    held = {uuid: {**parts, pool: {"DISK_GB": 1}} for uuid, parts in reading.allocations.items()}
    shared = provider.Provider(pool, "pool", 1, pool)
    reading = dataclasses.replace(
        reading, allocations=held, providers={**reading.providers, pool: shared}
    )
    server = reading.servers[SERVER]
    is_settled = server_moves.move_of(reading, server).is_settled
    for holder in server_moves.holders_on(reading, pool):
        move = holder.migration
        is_over = move is not None and move.is_over
        is_nowhere = move is None and server.host is None
        is_nowhere = is_nowhere and server.vm_state in server_moves.STATES_ON_NO_HOST
        assert holder.is_leaked is (is_settled and (is_over or is_nowhere))


@pytest.mark.parametrize("status", ["accepted", "queued"])
@pytest.mark.parametrize("task", [None, "migrating"])
def test_a_move_that_no_source_has_begun_is_stuck_after_a_while(
    status: str, task: str | None
) -> None:
    step = moving_cloud.Step(status, task, "active", "s", "d", "s", "s")
    move = _move(View("live-migration", step))
    assert move.stuck(NOW, min_age=3600) is not None
    assert move.stuck(NOW, min_age=3601) is None


def test_a_move_is_not_stuck_before_nova_itself_would_end_it() -> None:
    step = moving_cloud.Step("accepted", "migrating", "active", "s", "d", "s", "s")
    move = _move(View("live-migration", step))
    begun = datetime.datetime.fromisoformat(moving_cloud.START)
    assert move.stuck(begun + datetime.timedelta(seconds=59), min_age=0) is None
    assert move.stuck(begun + datetime.timedelta(seconds=60), min_age=0) is not None


@pytest.mark.parametrize("host", moving_cloud.HOSTS[:2])
def test_a_live_migration_that_is_rolled_back_leaves_both_hosts_in_doubt(host: str) -> None:
    step = moving_cloud.Step("cancelled", None, "active", "s", "s", "", "s")
    now = datetime.datetime.now(datetime.UTC).isoformat()
    reading = View("live-migration", step).reading(updated_at=now)
    move = server_moves.move_of(reading, reading.servers[SERVER])
    assert [loss.is_certain for loss in move.losses if loss.host == host] == [False]
    assert "nova may still clean up its target: wait a minute" in move.why()
    assert guest_search.next_step(reading, move) == "then run this command again"


@pytest.mark.parametrize("status", ["preparing", "running", "migrating", "finished", "confirming"])
def test_a_move_that_its_source_works_on_is_not_stuck(status: str) -> None:
    step = moving_cloud.Step(status, None, "active", "s", "d", "s", "s")
    for move_type in ("live-migration", "migration"):
        assert _move(View(move_type, step)).stuck(NOW, min_age=60) is None


def test_a_migration_without_times_is_never_stuck() -> None:
    step = moving_cloud.Step("accepted", None, "active", "s", "d", "s", "s")
    reading = View("live-migration", step).reading(updated_at=None)
    move = server_moves.move_of(reading, reading.servers[SERVER])
    assert move.stuck(NOW, min_age=60) is None
    assert values.seconds_since(move.since, NOW) is None


def test_a_migration_without_hosts_counts_on_novas_host_and_anywhere() -> None:
    step = moving_cloud.Step("accepted", "migrating", "active", "s", "s", "", "s")
    fields = ("source_compute", "source_node", "dest_compute", "dest_node")
    reading = View("live-migration", step).reading(**dict.fromkeys(fields))
    move = server_moves.move_of(reading, reading.servers[SERVER])
    assert moving_cloud.guest_hosts(move) == {SOURCE}
    assert move.anywhere


@pytest.mark.parametrize("task", [None, "migrating"])
def test_a_claim_shows_the_destination_that_nova_does_not_show_yet(task: str | None) -> None:
    """Nova has no destination of a live migration until the checks of both hosts are over."""
    step = moving_cloud.Step("accepted", task, "active", "s", "d", "s", "s", "d")
    reading = View("live-migration", step).reading(dest_compute=None, dest_node=None)
    move = server_moves.move_of(reading, reading.servers[SERVER])
    lost = server_moves.Loss(DESTINATION, DESTINATION, Cost.MOVE, is_certain=bool(task))
    assert lost in move.losses
    assert move.stuck(NOW, min_age=60) == reading.migrations[MIGRATION]


def test_a_destination_without_a_node_is_the_node_of_its_host() -> None:
    step = moving_cloud.Step("running", "migrating", "active", "s", "d", "s", "s")
    reading = View("live-migration", step).reading(dest_node=None)
    move = server_moves.move_of(reading, reading.servers[SERVER])
    assert server_moves.Loss(DESTINATION, DESTINATION, Cost.GUEST) in move.losses


def test_a_server_of_a_cell_that_is_down_may_be_where_it_holds_allocations() -> None:
    step = moving_cloud.Step(None, None, "active", "s", "s", "", "s")
    reading = View("", step).reading()
    hidden = values.Server(SERVER, known=False)
    reading = dataclasses.replace(reading, servers={SERVER: hidden})
    move = server_moves.move_of(reading, hidden)
    assert (move.phase, move.moving) == (Phase.UNKNOWN, server_moves.CELL_DOWN)
    assert move.losses == (server_moves.Loss(SOURCE, SOURCE, Cost.GUEST, is_certain=False),)


def test_a_queued_migration_waits_while_its_source_works_on_another() -> None:
    queued = View("live-migration", moving_cloud.PROTOCOLS["live"][1][3])
    running = View("live-migration", moving_cloud.PROTOCOLS["live"][1][5])
    pair = [Moving(queued), Moving(running, name="another", move="another move")]
    reading = moving_cloud.reading(pair)
    waiting = reading.migrations[MIGRATION]
    assert server_moves.is_queued(reading, waiting)
    assert not server_moves.is_queued(moving_cloud.reading(pair[:1]), waiting)
