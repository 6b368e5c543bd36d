# SPDX-License-Identifier: Apache-2.0
"""Every place that prints a command, with names that are options or scripts.

bash reads the printed lines, and the parser of the command itself reads the words: they must select
exactly what was meant. A place without a case here fails.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib
import importlib.metadata
import io
import itertools
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace as Fake
from typing import Any
from unittest import mock

import pytest

import osc_placement
from osc_placement.client import lookup, transport
from osc_placement.model import command_line, constraint
from osc_placement.nova import values
from osc_placement.nova.flavor import EXTRA_SPECS, Source
from osc_placement.plan import file as plan_file, journal, plan
from osc_placement.scheduling import verdict
from osc_placement.scheduling.case import Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.v1.common import plan_command
from osc_placement.v1.moving import shown
from osc_placement.v1.repair import migration
from osc_placement.v1.resources import allocation, provider
from osc_placement.workflows.cloud import (
    guest_search,
    named_aggregates,
    nova_servers,
    selector,
    server_moves,
    servers,
    ways,
)
from osc_placement.workflows.explain import changes, commands as explain, holders
from osc_placement.workflows.moving import document, follow, retire, roll_gate, script
from osc_placement.workflows.repair.allocations import stuck
from osc_placement.workflows.reshape import replace_host
from tests.support import commands
from tests.support.candidates import clouds
from tests.support.capacity import cases
from tests.support.fuzz.names import HOSTILE

ROOT = pathlib.Path(osc_placement.__file__).parents[1]
UUID = "7d2590ae-fb85-4080-9306-058b4c915e3f"
PLAIN = "a-plain-name"
NAMES = (*HOSTILE, "-" + "x" * 2**20)

#: What a place is given for a name; what it yields are command lines besides those that it builds.
Case = Callable[[str], Iterator[str] | object]


def aggregate(name: str) -> values.HostAggregate:
    return values.HostAggregate("7", name, UUID, (name,))


def unset(name: str) -> None:
    part = constraint.Constraint(constraint.Kind.REQUIRED, names=("T",))
    asked: Any = Fake(
        server=Fake(uuid=None, flavor_name=name),
        sources={part: Source(EXTRA_SPECS, "trait:T=required")},
    )
    explain.commands(changes.SmallestChange(1, removed=(part,)), Fake(), {}, asked)  # type: ignore[arg-type]


def explained(name: str) -> None:
    explanation: Any = Fake(nova_hosts={name: name}, uuids={name: UUID})
    for action in changes.Action:
        step: Any = Fake(
            action=action, provider=name, name="CUSTOM_A", field="total", amount=4, value=4.0
        )
        explain._command(step, explanation, {})
        explain._command(step, explanation, {"CUSTOM_A": aggregate(name)})


def command_of(entry: str, *words: str) -> tuple[Any, argparse.Namespace]:
    command = commands.load(commands.COMMANDS[entry])(commands.APP, None, entry.replace("_", " "))
    parsed = command.get_parser("openstack").parse_args([word for word in words if word])
    parsed.nova_recording = None
    return command, parsed


def again(name: str) -> Iterator[str]:
    command, parsed = command_of("placement_aggregate_mirror")
    parsed.host_aggregate = [name]
    yield f"openstack {command.command_line(parsed)}"


def balanced(name: str) -> None:
    command, parsed = command_of("placement_capacity_balance")
    command._arguments = parsed
    parsed.avoid = [name or "7"]
    shown.anew(command, parsed)


def migrations(name: str) -> None:
    command, parsed = command_of("placement_migration_run")
    assert isinstance(command, migration.RunMigrations)
    parsed.nova_recording = name
    command._command_again(parsed)


def drained(name: str) -> None:
    plan = document.MovePlan((name,), (UUID,), ())
    plan.command_to_continue(Path(name))  # type: ignore[arg-type]
    list(script.back_lines(plan, ServerHosts(values.Hosts())))


def rolled(name: str) -> None:
    # No host of nova has an empty name.
    host = name or "7"
    nodes = (values.ComputeNode(UUID, host, host),)
    leaked = Fake(consumer_uuid=UUID, is_leaked=True)
    for is_enabled in (False, True):
        services = (values.ComputeService(host, is_enabled=is_enabled),)
        compute = ServerHosts(values.Hosts(nodes, services))
        cloud: Any = Fake(providers={UUID: Fake(name=host)})
        with mock.patch.object(server_moves, "holders_on", return_value=[leaked]):
            record = roll_gate.RebootRecord(frozenset({host}))
            assert list(roll_gate.check(None, record, (), cloud, compute))
    path: Any = Fake(absolute=lambda: name, parent=name)
    script._next_leg(path, path)


def followed(name: str) -> None:
    service = values.ComputeService(name)
    server: Any = Fake(uuid=UUID, status="ERROR", host=name or "7", name=name)
    reading: Any = Fake(servers={UUID: server}, migrations={}, migrations_of={}, node_of=str)
    for phase in (server_moves.Phase.WAITING, server_moves.Phase.AT_REST):
        now = Fake(phase=phase, is_settled=True, why=str)
        with mock.patch.object(server_moves, "move_of", return_value=now):
            follow._in_motion(reading, server)
    list(follow._enabled(name, ServerHosts(values.Hosts(compute_services=(service,)))))
    with mock.patch.object(follow, "_in_motion", return_value=None):
        follow._consumer(reading, name, UUID)
        reading.node_of = lambda _: None
        follow._consumer(reading, name, UUID)
    by_state = nova_servers.ServersByState({(UUID, UUID): server}, {}, {}, frozenset())
    base = Fake(providers={UUID: Fake(name=name)})
    read: Any = Fake(base=base, cloud=reading, by_state=by_state, roots=[UUID])
    with (
        mock.patch.object(server_moves, "move_of", return_value=Fake(phase="", is_settled=True)),
        mock.patch.object(servers, "consumers_on", return_value=()),
    ):
        server.status = "ACTIVE"
        list(follow.host_states(read, ServerHosts(values.Hosts())))


def evacuated(name: str) -> None:
    # No host of nova has an empty name.
    host = name or "7"
    compute = ServerHosts(values.Hosts(compute_services=(values.ComputeService(host),)))
    server = values.Server(UUID, host=host, vm_state="active")
    query = clouds.query(clouds.group(VCPU=1))
    verdict.refusal(cases.case(query, compute, way=Way.EVACUATE, server=server))


def unallocated(name: str) -> None:
    list(nova_servers.Unallocated({UUID: name}, {UUID: name}).lines())
    nova_servers.audit_of_move(Fake(), Fake(has_leftovers=True, migrations=(), phase=None), name)  # type: ignore[arg-type]


def left_by_a_move(name: str) -> None:
    reading: Any = Fake(allocations={UUID: {}}, providers={})
    for node, has_failed in itertools.product((None, Fake(uuid=UUID, host=name)), (True, False)):
        move: Any = Fake(
            migrations=[
                Fake(has_failed=has_failed, dest_host=None, uuid=UUID, is_rolled_back=False)
            ],
            server=Fake(
                task_state="" if has_failed else "x", vm_state="", uuid=UUID, host=name, hidden=""
            ),
            node=node,
            has_leftovers=True,
            losses=(),
            phase=server_moves.Phase.DISAGREES,
        )
        guest_search.next_step(reading, move)


def stuck_move(name: str) -> None:
    server: Any = Fake(uuid=UUID, task_state="migrating", project_id=name, user_id=name)
    snapshot: Any = Fake(allocations={UUID: {UUID: {"VCPU": 1}}})
    for kind, status in ((server_moves.LIVE, "queued"), ("resize", "error")):
        list(stuck.commands_to_end(snapshot, server, Fake(uuid=UUID, type=kind, status=status)))  # type: ignore[arg-type]


def evacuated_in_vain(name: str) -> None:
    server: Any = Fake(uuid=UUID, host=name)
    for is_up in (False, True):
        hosts = Fake(compute_services=[Fake(host=name, is_up=is_up)])
        snapshot: Any = Fake(hosts=hosts)
        list(stuck._commands_after_evacuation(snapshot, server))


def retired(name: str) -> None:
    service: Any = Fake(host=name, uuid="", is_enabled=True, is_reachable=True, is_up=True)
    reading: Any = Fake(
        hosts=Fake(compute_services=[service], services=set()),
        nodes_of_host={},
        servers={UUID: Fake(host=name, uuid=UUID)},
        migrations={},
        aggregates=[aggregate(name)],
        trees={UUID: [Fake(uuid=UUID)]},
        allocations={"c": {UUID: {}}},
    )
    list(retire._service_lines(service))
    with mock.patch.object(retire, "_in_doubt", return_value=()):
        list(retire._why_in_use(reading, name))
    list(retire._why_needed(reading, UUID, set(), ()))
    list(retire._membership_lines(reading, Fake(name=name)))  # type: ignore[arg-type]


def members(name: str) -> None:
    str(named_aggregates.NamedMembers(aggregate(name), lacking=("x",), stale=("y",)))


def selected(name: str) -> Iterator[str]:
    chosen = selector.Selector(providers=(name,), in_tree=name, name_globs=(name,))
    yield f"openstack resource provider trait add --trait=CUSTOM_A {chosen}"


class Path:
    """A path that exists, of any name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_file(self) -> bool:
        return True

    def __str__(self) -> str:
        return self.name


def replaced(name: str) -> None:
    other: Any = Fake(digest="other")
    with contextlib.suppress(plan.PlanRefused):
        journal.check_replaceable(Path(name), other)  # type: ignore[arg-type]


#: The functions that print commands, and their cases.
CASES: dict[str, Case] = {
    "plan.journal:check_replaceable": replaced,
    "v1.common.plan_command:PlanCommand.command_line": again,
    "v1.common.plan_command:plan_command": lambda name: plan_command.plan_command("undo", name),
    "v1.moving.shown:anew": balanced,
    "v1.repair.migration:RunMigrations._command_again": migrations,
    "v1.resources.allocation:_not_a_uuid": lambda name: allocation._not_a_uuid(name),
    "v1.resources.provider:_next_step": lambda name: provider._next_step(
        Fake(),
        UUID,
        Fake(detail="has allocations"),  # type: ignore[arg-type]
        with_tree=False,
    ),
    "workflows.cloud.nova_servers:Unallocated.lines": unallocated,
    "workflows.cloud.nova_servers:audit_of_move": unallocated,
    "workflows.moving.document:MovePlan.command_to_continue": drained,
    "workflows.moving.follow:_consumer": followed,
    "workflows.moving.follow:_enabled": followed,
    "workflows.moving.follow:host_states": followed,
    "workflows.moving.follow:_in_motion": followed,
    "workflows.moving.roll_gate:check": rolled,
    "workflows.moving.script:_next_leg": rolled,
    "workflows.moving.script:back_lines": drained,
    "workflows.explain.commands:_command": explained,
    "workflows.explain.commands:commands": unset,
    "workflows.explain.holders:audit": lambda _: holders.audit([Fake(consumer_uuid=UUID)]),  # type: ignore[list-item]
    "scheduling.api_rules:_source_up": evacuated,
    "workflows.cloud.ways:command": lambda name: [
        ways.command(name, way) for way in (*ways.OFF_A_HOST, *ways.OFF_A_DEAD_HOST)
    ],
    "workflows.cloud.guest_search:_repair": left_by_a_move,
    "workflows.cloud.guest_search:next_step": left_by_a_move,
    "workflows.cloud.named_aggregates:NamedMembers.__str__": members,
    "workflows.cloud.selector:Selector.__str__": selected,
    "workflows.repair.allocations.stuck:_commands_after_evacuation": evacuated_in_vain,
    "workflows.repair.allocations.stuck:commands_to_end": stuck_move,
    "workflows.moving.retire:_down": retired,
    "workflows.moving.retire:_membership_lines": retired,
    "workflows.moving.retire:_service_lines": retired,
    "workflows.moving.retire:_why_in_use": retired,
    "workflows.moving.retire:_why_needed": retired,
    "workflows.reshape.replace_host:_set_service": lambda name: replace_host._set_service(
        name, "--down"
    ),
}


#: Commands with names that somebody typed, or whose subject is a UUID at any time.
TYPED = {
    "workflows.cloud.selector:Selector.__str__",
    "workflows.repair.allocations.stuck:_commands_after_evacuation",
    "workflows.repair.allocations.stuck:commands_to_end",
}


def places() -> Iterator[str]:
    """Every function of the product that calls the builder of command lines."""
    for path in sorted((ROOT / "osc_placement").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "osc_placement").with_suffix("").parts)
        yield from _places_in(ast.parse(path.read_text()), f"{module}:")


def _places_in(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{name}{'' if name.endswith(':') else '.'}{child.name}"
        match child:
            case ast.Attribute(ast.Name("command_line" | "lines"), "line" | "words"):
                yield name
        yield from _places_in(child, inner)


def built(monkeypatch: pytest.MonkeyPatch, case: Case, name: str) -> tuple[list[str], set[str]]:
    """The command lines of a case, and the functions that built them."""
    texts: list[str] = []
    callers: set[str] = set()

    def recorded(build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def record(*arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            module = frame.f_globals["__name__"].removeprefix("osc_placement.")
            callers.add(f"{module}:{frame.f_code.co_qualname}")
            text = build(*arguments, **options)
            texts.extend([text] if isinstance(text, str) else [])
            return text

        return record

    with monkeypatch.context() as patch:
        for attribute in ("line", "words"):
            patch.setattr(command_line, attribute, recorded(getattr(command_line, attribute)))
        patch.setattr(lookup, "provider_names", lambda client, uuids: {UUID: name})
        patch.setattr(plan_file, "read", lambda path: PARTLY)
        states = {"a": journal.StepState.APPLIED}
        patch.setattr(journal, "read", lambda path: journal.Contents(states, {}))
        more = case(name)
        texts += more if isinstance(more, Iterator) else []
    return texts, callers


PARTLY = Fake(
    digest="one",
    undoes="",
    target="x",
    identity=transport.Identity(),
    changes=[Fake(key="a"), Fake(key="b")],
)


def test_every_place_that_prints_a_command_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(CASES) == sorted(set(places()))
    for place, case in CASES.items():
        assert place in built(monkeypatch, case, PLAIN)[1]


@functools.cache
def names() -> frozenset[str]:
    """The commands of this plugin and of nova's."""
    points = importlib.metadata.entry_points(group="openstack.compute.v2")
    return frozenset({*commands.COMMANDS, *(point.name for point in points)})


@functools.cache
def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command of this plugin or of nova's; a global option is added."""
    entry = command.replace(" ", "_")
    if entry in commands.COMMANDS:
        parser = commands.parser_of(entry)
    else:
        (point,) = importlib.metadata.entry_points(group="openstack.compute.v2", name=entry)
        parser = point.load()(commands.APP, None).get_parser(command)
    for option in ("--os-nova-recording", "--os-compute-api-version"):
        if option not in parser._option_string_actions:
            parser.add_argument(option)
    return parser


def parsed(words: list[str]) -> object:
    """What the parser of a command line makes of it; its exit code if it refuses it."""
    size = max(n for n in range(1, min(len(words), 5) + 1) if "_".join(words[:n]) in names())
    parser = parser_of(" ".join(words[:size]))
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return vars(parser.parse_args(words[size:]))
        except SystemExit as error:
            # 0: the parser has shown its help.
            return f"exit {error.code}"


def is_like(value: Any, plain: Any, names: tuple[str, ...]) -> bool:
    """Whether a value of a parser is the plain one, with one of ``names`` in place of PLAIN."""
    if str(plain) == PLAIN and value == [] and "--" in names:
        # Python's argparse reads the value "--" as an empty list, which no command finds.
        return True
    if type(value) is not type(plain):
        return False
    if isinstance(value, dict):
        keys = value.keys() | plain.keys()
        return all(is_like(value.get(key), plain.get(key), names) for key in keys)
    if isinstance(value, list | tuple):
        pairs = itertools.zip_longest(value, plain)
        return all(is_like(argument, other, names) for argument, other in pairs)
    if isinstance(value, pathlib.Path):
        return value in map(pathlib.Path, names if str(plain) == PLAIN else [str(plain)])
    return value in (names if plain == PLAIN else (plain,))


def words_of(texts: list[str], folder: pathlib.Path) -> list[list[str]]:
    """The words that bash passes to ``openstack``, for each line; bash may do nothing else."""
    function = "openstack() { printf '%s\\0' \"$@\" $'\\1'; }\n"
    (folder / "script").write_text(function + "".join(f"{text}\n" for text in texts))
    done = subprocess.run(["bash", "script"], cwd=folder, capture_output=True, check=True)
    assert [path.name for path in folder.iterdir()] == ["script"]
    assert done.stderr == b""
    runs = done.stdout.decode(errors="surrogateescape").split("\1\0")[:-1]
    return [run.split("\0")[:-1] for run in runs]


@functools.cache
def plain_of(place: str) -> list[object]:
    """What the parsers make of the command lines of a place, with a plain name."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        texts = built(patch, CASES[place], PLAIN)[0]
        return [parsed(words) for words in words_of(texts, pathlib.Path(folder))]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_printed_command_selects_what_was_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, name: str
) -> None:
    """The same as with a plain name: the name itself, or the UUID or id that stands for it."""
    for place, case in {case: (place, case) for place, case in CASES.items()}.values():
        expected = plain_of(place)
        texts = built(monkeypatch, case, name)[0]
        assert all(text.isprintable() for text in texts)
        assert len(texts) == len(expected) > 0
        for text, words, plain in zip(texts, words_of(texts, tmp_path), expected, strict=True):
            # A provider's name may be anything, also another one's UUID: its UUID stands for it.
            is_provider = words[:2] == ["resource", "provider"] and place not in TYPED
            stands_for_it = (UUID,) if is_provider else (name, "7")
            assert is_like(parsed(words), plain, stands_for_it), (place, text[:200])
