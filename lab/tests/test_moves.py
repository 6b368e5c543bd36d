# SPDX-License-Identifier: Apache-2.0
"""Servers that move on real nova, held at each point, against what the commands say.

``OSC_PLACEMENT_MOVES`` names a folder with *moves.py*: real keystone, placement and nova (API,
conductor, scheduler and six nova-compute) whose driver can be held at each point of a move, and
which knows where each guest is (``truth``). It needs rabbitmq-server and mariadb-server, and an
hour of a slow machine. Each story prints its phases, the statements compared and those that are
false.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.peer import shell

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

FOLDER = "OSC_PLACEMENT_MOVES"
A, B, C, D = "moves-2", "moves-3", "moves-4", "moves-5"
_OVER = {"completed", "done", "confirmed", "reverted", "error", "failed", "cancelled"}
#: Seconds for a step of nova on a slow machine.
PATIENCE = 300


class Lab:
    """The services, and the phases that were compared."""

    def __init__(self, moves: Any) -> None:
        self.moves, self.api = moves, moves.Api()
        self.phases: list[str] = []
        self.statements = 0
        self.wrong: list[str] = []

    def hold(self, host: str, point: str) -> None:
        self.moves.hold(host, point)

    def held(self, host: str, point: str) -> None:
        self.wait(f"{point} on {host}", lambda: self.moves.held(host, point))

    def fail(self, host: str, point: str) -> None:
        """Let a call that waits there raise."""
        self.moves.hold(host, point, "fail")

    def wait(self, what: str, check: Callable[[], Any]) -> Any:
        return self.moves.wait(what, check, PATIENCE)

    def server(self, name: str, host: str) -> str:
        return str(self.moves.create(self.api, name, host, patience=PATIENCE))

    def act(self, server: str, **body: Any) -> None:
        self.api.act(server, {name.replace("__", "-"): value for name, value in body.items()})

    def live(self, server: str, host: str) -> None:
        self.act(server, **{"os-migrateLive": {"host": host, "block_migration": "auto"}})

    def settled(self, server: str, *states: str) -> None:
        self.moves.settle(self.api, server, states, PATIENCE)

    def status(self, server: str, *statuses: str) -> None:
        """Wait for the newest migration of a server to have one of these statuses."""
        self.wait(f"a migration that is {statuses}", lambda: self._newest(server) in statuses)

    def _newest(self, server: str) -> str:
        listed = [m for m in self.api.migrations() if m["instance_uuid"] == server]
        return max(listed, key=lambda m: m["id"])["status"] if listed else ""

    def is_down(self, host: str, *, is_down: bool = True) -> None:
        state = "down" if is_down else "up"
        self.wait(
            f"{host} to be {state}",
            lambda: [s for s in self.api.services() if (s["host"], s["state"]) == (host, state)],
        )

    def forced_up(self, host: str) -> bool:
        """Undo a forced_down: nova refuses it until the host has cleaned up its evacuations."""
        try:
            self.moves.force_down(self.api, host, False)
        except self.moves.Refused:
            return False
        return True

    def phase(
        self,
        name: str,
        server: str,
        ends: tuple[str, str] = (A, B),
        *,
        doubt: bool = False,
        needed: tuple[str, ...] = (),
        audit: tuple[str, ...] = (),
        min_age: str = "3600",
    ) -> None:
        """Compare what each command says with the truth.

        ``doubt``: nova's host is a claim, so that unknown is the right answer for both ends.
        ``needed``: hosts that the move needs though no guest is there. ``audit``: the codes of the
        findings about the server and its migrations.
        """
        truth = self.moves.truth(self.api)
        view = _View(truth, server, doubt, needed)
        before = len(self.wrong)
        said = []
        for host in ends:
            code, checked = _run("placement host check", host)
            said.append(f"{host} {checked['answer']}")
            self._compare(name, view.wrong_check(host, code, checked), 2)
        _, rows = _run("placement allocation audit", "--min-age", min_age)
        codes = sorted(row["code"] for row in rows if view.concerns(json.dumps(row)))
        said.append(f"audit {codes}")
        is_wrong = codes != sorted(audit)
        self._compare(name, [f"audit: {codes}, not {sorted(audit)}"] if is_wrong else [], 1)
        _, rows = _run("placement allocation heal", "--dry-run")
        written = [row["uuid"] for row in rows if row["before"] != row["after"] and row["after"]]
        self._compare(name, [f"heal writes {one}" for one in written], 1)
        _, rows = _run("placement health show")
        after = self.moves.truth(self.api)["hosts"]
        self._compare(name, view.wrong_health(rows, after), len(truth["hosts"]))
        self.phases.append(name)
        print(f"{name}: {view.shown} | {', '.join(said)}", flush=True)
        for line in self.wrong[before:]:
            print(f"  FALSE {line}", flush=True)

    def _compare(self, phase: str, wrong: list[str], statements: int) -> None:
        self.statements += statements
        self.wrong += [f"{phase}: {text}" for text in wrong]


@dataclasses.dataclass
class _View:
    """One server by the truth, and what follows for the commands."""

    truth: dict[str, Any]
    server: str
    doubt: bool
    needed: tuple[str, ...]

    def __post_init__(self) -> None:
        self.known = self.truth["servers"].get(self.server, {})
        # What still runs of a server that its owner deleted is nobody's loss.
        self.guest = dict(self.known.get("guest", {}))
        self.nova = self.known.get("nova", {})
        self.migrations = self.known.get("migrations", [])
        for move in self.migrations:
            if (move["migration_type"], move["status"]) == ("evacuation", "done"):
                # What is left on the source is not the server any more.
                self.guest.pop(move["source_compute"], None)
        self.is_open = any(move["status"] not in _OVER for move in self.migrations)

    @property
    def shown(self) -> str:
        moves = [f"{move['migration_type']} {move['status']}" for move in self.migrations[-1:]]
        view = self.nova.get("status"), self.nova.get("task_state"), self.nova.get("host")
        return f"guest {self.guest}, nova {view}, {moves}"

    def concerns(self, text: str) -> bool:
        uuids = [self.server, *(move["uuid"] for move in self.migrations)]
        return any(uuid in text for uuid in uuids)

    def wrong_check(self, host: str, code: int, said: dict[str, Any]) -> list[str]:
        """The two statements of host check: the answer, and the number of servers."""
        allowed = self._answers(host)
        wrong = []
        if said["answer"] not in allowed:
            wrong.append(f"host check {host}: {said['answer']} {said['reason']}, not {allowed}")
        if code != {"yes": 0, "no": 3, "unknown": 4}[said["answer"]]:
            wrong.append(f"host check {host}: exit code {code}")
        is_here = self.guest.get(host) in ("running", "off")
        at_least = is_here and not self.doubt
        moves = self.is_open or self.nova.get("task_state")
        at_most = bool(is_here or moves or self.doubt or host in self.needed)
        if not at_least <= said["servers"] <= at_most and said["answer"] != "unknown":
            wrong.append(f"host check {host}: {said['servers']} servers")
        return wrong

    def _answers(self, host: str) -> tuple[str, ...]:
        state, nova = self.guest.get(host), self.nova
        if self.doubt:
            return ("unknown", "no") if state in ("running", "off") else ("unknown", "no", "yes")
        is_moved = self.is_open or nova.get("task_state")
        if state in ("running", "off"):
            rests = nova.get("host") == host and not is_moved
            # A guest at rest has a place elsewhere; otherwise its host must not stop.
            return ("yes",) if rests else ("no", "unknown")
        if host in self.needed or (state == "prepared" and is_moved):
            return ("no", "unknown")
        left = self.truth["allocations_without_server"].values()
        if not self.known and any(host in hosts for hosts in left):
            # A consumer of which nova knows nothing.
            return ("unknown",)
        # An end of a move without a guest: no is the safe word.
        return ("yes", "no") if is_moved else ("yes",)

    def wrong_health(self, rows: list[dict[str, Any]], after: dict[str, Any]) -> list[str]:
        """One statement for each host: whether it is down.

        Nova notices a host that does not report after a while: ``after`` is the end of the phase.
        """
        wrong = []
        told = json.dumps([row for row in rows if row["code"] == "host-down"])
        for host, service in self.truth["hosts"].items():
            states = {service["state"], after[host]["state"]}
            if ("down" if host in told else "up") not in states:
                wrong.append(f"health: {host} is {service['state']}")
        return wrong


def _run(command: str, *arguments: str) -> tuple[int, Any]:
    ended = shell.run([*command.split(), *arguments, "-f", "json"])
    assert ended.stdout, ended.stderr
    return ended.code, json.loads(ended.stdout)


@pytest.fixture(scope="module")
def started() -> Iterator[Lab]:
    folder = os.environ.get(FOLDER)
    assert folder, f"{FOLDER} must name the folder of moves.py"
    sys.path.insert(0, folder)
    try:
        moves = importlib.import_module("moves")
        was_up = moves.process("nova") == "running"
        moves.up(6)
        lab = Lab(moves)
        yield lab
        print(
            f"{len(lab.phases)} phases, {lab.statements} statements, {len(lab.wrong)} false",
            *lab.wrong,
            sep="\n",
        )
        if not was_up:
            moves.down()
    finally:
        sys.path.remove(folder)


@pytest.fixture
def lab(started: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[Lab]:
    """The lab with all hosts up and without servers."""
    for line in pathlib.Path(started.moves.path("openrc")).read_text().splitlines():
        for pair in line.removeprefix("export ").split():
            name, _, value = pair.partition("=")
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    began = len(started.wrong)
    _clean(started)
    yield started
    _clean(started)
    assert started.wrong[began:] == []


def _clean(started: Lab) -> None:
    """Start and release everything, and delete the servers with what they left behind."""
    started.moves.release()
    for who in started.moves.everyone():
        started.moves.group(who, 18)
        started.moves.start(who)
    for host in started.moves.hosts():
        if any(s["host"] == host and s["forced_down"] for s in started.api.services()):
            started.wait(f"{host} to come up", lambda host=host: started.forced_up(host))
    started.moves.wait_services(started.api)
    for server in started.api.servers():
        started.api.act(server["id"], {"os-resetState": {"state": "active"}})
    started.moves.delete(started.api)
    # What the end of a server left behind is no part of the next story.
    for uuid in started.moves.truth(started.api)["allocations_without_server"]:
        started.api("DELETE", "placement", f"/allocations/{uuid}")


def test_a_live_migration(lab: Lab) -> None:
    server = lab.server("live", A)
    lab.phase("at rest", server)
    lab.hold(B, "pre_live_migration")
    lab.hold(A, "live_migration.before")
    lab.hold(A, "live_migration.after")
    lab.hold(B, "post_live_migration_at_destination")
    lab.live(server, B)
    for host, point in (
        (B, "pre_live_migration"),
        (A, "live_migration.before"),
        (A, "live_migration.after"),
        (B, "post_live_migration_at_destination"),
    ):
        lab.held(host, point)
        lab.phase(f"live: {point}", server)
        lab.moves.release(host, point)
    lab.settled(server, "ACTIVE")
    lab.status(server, "completed")
    lab.phase("live: completed", server)


def test_a_live_migration_that_is_aborted(lab: Lab) -> None:
    server = lab.server("aborted", A)
    lab.hold(A, "live_migration.before")
    lab.hold(B, "rollback_live_migration_at_destination")
    lab.live(server, B)
    lab.held(A, "live_migration.before")
    (move,) = (m for m in lab.api.migrations() if m["instance_uuid"] == server)
    lab.api.nova("DELETE", f"/servers/{server}/migrations/{move['id']}")
    lab.held(B, "rollback_live_migration_at_destination")
    lab.phase("abort: rollback", server, doubt=True, audit=("unknown",))
    lab.moves.release()
    lab.status(server, "cancelled")
    lab.settled(server, "ACTIVE")
    # For a minute the clean-up of the target may go on.
    lab.phase("abort: cancelled", server, doubt=True, audit=("unknown",))


def test_a_live_migration_that_fails_behind_the_copy(lab: Lab) -> None:
    server = lab.server("broken", A)
    lab.hold(A, "live_migration.after")
    lab.live(server, B)
    lab.held(A, "live_migration.after")
    lab.fail(A, "live_migration.after")
    lab.status(server, "error", "failed")
    time.sleep(5)
    lab.phase("live: failed behind the copy", server, doubt=True, audit=("unknown",))


def test_a_live_migration_whose_target_dies(lab: Lab) -> None:
    server = lab.server("target", A)
    lab.hold(B, "pre_live_migration")
    lab.live(server, B)
    lab.held(B, "pre_live_migration")
    lab.moves.stop(B, kill=True)
    lab.is_down(B)
    lab.phase("live: the target died", server, needed=())


def test_a_live_migration_whose_source_dies(lab: Lab) -> None:
    server = lab.server("source", A)
    lab.hold(A, "live_migration.before")
    lab.live(server, B)
    lab.held(A, "live_migration.before")
    lab.moves.stop(A, kill=True)
    lab.is_down(A)
    lab.phase("live: the source died", server)
    lab.moves.release()
    lab.moves.start(A)
    lab.is_down(A, is_down=False)
    time.sleep(10)
    # Nova ends the migration, and Placement still holds both: the same view as behind the copy.
    lab.phase("live: the source is back", server, doubt=True, audit=("unknown", "unknown"))


def test_a_live_migration_that_nobody_begins(lab: Lab) -> None:
    server = lab.server("stuck", A)
    lab.moves.group(B, 19)
    lab.live(server, B)
    lab.status(server, "accepted")
    time.sleep(10)
    lab.phase("live: the target is frozen", server)
    lab.moves.stop("conductor", kill=True)
    lab.moves.group(B, 18)
    lab.moves.start("conductor")
    lab.wait("the conductor", lambda: _conductor(lab))
    lab.phase("live: the conductor died", server)
    lab.act(server, **{"os-resetState": {"state": "active"}})
    lab.phase("live: reset to active", server, doubt=True)
    # Below nova's own time-out the word is not "stuck".
    time.sleep(60)
    lab.phase("live: stuck", server, doubt=True, audit=("stuck-move",), min_age="1")


def _conductor(lab: Lab) -> bool:
    return any(
        s["binary"] == "nova-conductor" and lab.moves.reported(s) for s in lab.api.services()
    )


def test_a_cold_migration_that_is_confirmed(lab: Lab) -> None:
    server = lab.server("cold", A)
    lab.hold(A, "migrate_disk_and_power_off")
    lab.hold(B, "finish_migration")
    lab.act(server, migrate={"host": B})
    for host, point in ((A, "migrate_disk_and_power_off"), (B, "finish_migration")):
        lab.held(host, point)
        lab.phase(f"cold: {point}", server)
        lab.moves.release(host, point)
    lab.settled(server, "VERIFY_RESIZE")
    lab.phase("cold: VERIFY_RESIZE", server, needed=(A,))
    lab.hold(A, "confirm_migration")
    lab.act(server, confirmResize=None)
    lab.held(A, "confirm_migration")
    lab.phase("cold: confirm_migration", server, needed=(A,))
    lab.moves.release()
    lab.settled(server, "ACTIVE")
    lab.status(server, "confirmed")
    lab.phase("cold: confirmed", server)


def test_a_resize_that_is_reverted(lab: Lab) -> None:
    server = lab.server("resize", A)
    # Nova chooses the host of a resize: all others are disabled.
    for service in lab.api.services():
        if service["binary"] == "nova-compute" and service["host"] not in (A, B):
            lab.api.nova("PUT", f"/os-services/{service['id']}", {"status": "disabled"})
    try:
        lab.act(server, resize={"flavorRef": "medium"})
        lab.settled(server, "VERIFY_RESIZE")
    finally:
        for service in lab.api.services():
            if service["binary"] == "nova-compute":
                lab.api.nova("PUT", f"/os-services/{service['id']}", {"status": "enabled"})
    (move,) = (m for m in lab.api.migrations() if m["instance_uuid"] == server)
    target = move["dest_compute"]
    lab.phase("resize: VERIFY_RESIZE", server, (A, target), needed=(A,))
    lab.hold(A, "finish_revert_migration")
    lab.act(server, revertResize=None)
    lab.held(A, "finish_revert_migration")
    lab.phase("resize: finish_revert_migration", server, (A, target))
    lab.moves.release()
    lab.settled(server, "ACTIVE")
    lab.status(server, "reverted")
    lab.phase("resize: reverted", server, (A, target))


def test_a_cold_migration_that_fails_at_its_target(lab: Lab) -> None:
    server = lab.server("lost", A)
    lab.hold(B, "finish_migration")
    lab.act(server, migrate={"host": B})
    lab.held(B, "finish_migration")
    lab.fail(B, "finish_migration")
    lab.settled(server, "ERROR")
    time.sleep(5)
    lab.phase("cold: failed at the target", server, doubt=True, audit=("unknown",))
    lab.act(server, **{"os-resetState": {"state": "active"}})
    lab.phase("cold: failed, reset to active", server, doubt=True, audit=("unknown",))


def test_an_evacuation(lab: Lab) -> None:
    server = lab.server("evacuated", C)
    lab.moves.stop(C, kill=True)
    lab.moves.power_off(C)
    lab.moves.force_down(lab.api, C)
    lab.is_down(C)
    lab.phase("evacuation: the source is down", server, (C, D))
    lab.hold(D, "spawn")
    lab.act(server, evacuate={"host": D})
    lab.held(D, "spawn")
    lab.phase("evacuation: spawn", server, (C, D))
    lab.moves.release()
    lab.wait("the server", lambda: lab.api.server(server)["OS-EXT-SRV-ATTR:host"] == D)
    lab.settled(server, "ACTIVE", "SHUTOFF")
    lab.phase("evacuation: done", server, (C, D))
    lab.moves.start(C)
    lab.status(server, "completed")
    lab.moves.force_down(lab.api, C, False)
    lab.phase("evacuation: the source is back", server, (C, D))


def test_shelve_and_unshelve(lab: Lab) -> None:
    server = lab.server("shelved", A)
    lab.act(server, shelve=None)
    lab.settled(server, "SHELVED_OFFLOADED", "SHELVED")
    lab.phase("shelve: shelved", server)
    if lab.api.server(server)["status"] == "SHELVED":
        lab.act(server, shelveOffload=None)
        lab.settled(server, "SHELVED_OFFLOADED")
        lab.phase("shelve: offloaded", server)
    for host in lab.moves.hosts():
        lab.hold(host, "spawn")
    lab.act(server, unshelve=None)
    waiting = lab.wait("spawn", lambda: lab.moves.held(point="spawn"))
    (target,) = waiting
    lab.phase("unshelve: spawn", server, (target, A if target != A else B))
    lab.moves.release()
    lab.settled(server, "ACTIVE")
    lab.phase("unshelve: active", server, (target, A if target != A else B))


def test_a_server_that_is_deleted_while_it_moves(lab: Lab) -> None:
    server = lab.server("deleted", A)
    lab.hold(A, "live_migration.before")
    lab.live(server, B)
    lab.held(A, "live_migration.before")
    lab.hold(A, "destroy")
    lab.api.nova("DELETE", f"/servers/{server}")
    time.sleep(5)
    lab.phase("deleted while it moves: before", server)
    lab.moves.release()
    lab.wait("the server to go", lambda: lab.api.server(server) is None)
    time.sleep(15)
    leaked = {row["uuid"] for row in _leaked(lab, server)}
    lab.phase("deleted while it moves: gone", server, audit=("leaked-move",) * len(leaked))


def _leaked(lab: Lab, server: str) -> list[dict[str, Any]]:
    """The migrations of a server that is gone with allocations, by the truth."""
    moves = lab.moves.truth(lab.api)["migrations_without_server"]
    return [m for m in moves if m["instance_uuid"] == server and m["allocations"]]
