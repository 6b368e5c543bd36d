# SPDX-License-Identifier: Apache-2.0
"""Nova and neutron, for the commands that compare Placement with them.

The answers come from the cloud, or from a file (``--os-nova-recording``).
"""

from __future__ import annotations

import argparse
import datetime
import functools
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from osc_placement import errors
from osc_placement.v1.common import arguments, base
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.neutron.api import Neutron
    from osc_placement.nova import api, flavors
    from osc_placement.plan import progress
    from osc_placement.scheduling import nova_options
    from osc_placement.scheduling.answer import Caveats
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
    from osc_placement.workflows.health import health

T = TypeVar("T")


class NovaServices:
    """Nova and neutron of one run, opened when a command first uses them.

    Raises PlacementError if there is neither a cloud nor a readable recording.
    """

    def __init__(self, command: base.PlacementCommand, *, skips_ports: bool = False) -> None:
        self._command, self._skips_ports = command, skips_ports
        self._opened = datetime.datetime.now(datetime.UTC)

    @functools.cached_property
    def nova(self) -> api.Nova:
        """Nova of the cloud, or of the recording."""
        opened = nova_at_hand(self._command)
        if opened is not None:
            return opened()
        authenticate(
            self._command.app,
            "reads nova",
            "Select a cloud (OS_CLOUD), a recording of nova's responses (--os-nova-recording)"
            " or a snapshot that was saved --with-nova",
        )
        return _session_nova(self._command.app)

    @functools.cached_property
    def neutron(self) -> Neutron:
        """Neutron of the same cloud or recording."""
        from osc_placement.neutron.api import RecordedNeutron, SessionNeutron
        from osc_placement.nova import api

        if isinstance(self.nova, api.RecordedNova):
            return RecordedNeutron(self.nova.recorded, self.nova.source)
        shell: Any = self._command.app
        return SessionNeutron(shell.client_manager.sdk_connection)

    @functools.cached_property
    def glance(self) -> flavors.Glance:
        """Glance of the same cloud or recording."""
        from osc_placement.nova import flavors

        return flavors.glance_of(self.nova)

    def has_service_role(self, nova_conf: pathlib.Path | None) -> bool:
        """Whether the user of ``[placement]`` in a nova.conf has the role service in its project.

        Requests: two GETs to keystone. Errors: PlacementError says why it is not known.
        """
        from osc_placement.nova import api, roles

        if isinstance(self.nova, api.RecordedNova):
            raise errors.PlacementError("a recording of nova has no role assignments")
        if nova_conf is None:
            raise errors.PlacementError("--nova-conf names the nova.conf of a compute host")
        shell: Any = self._command.app
        login = roles.read_login(nova_conf)
        return roles.has_service_role(shell.client_manager.sdk_connection, login)

    @property
    def neutron_for_ports(self) -> Neutron | None:
        """Neutron, or None with ``--skip-port-allocations``."""
        return None if self._skips_ports else self.neutron

    def apply_options(self) -> dict[str, Any]:
        """The fields of ``apply.Options`` for a plan that was made from nova's responses."""
        from osc_placement.workflows.repair.allocations import preconditions

        return {
            "check_precondition": preconditions.NovaPreconditions(self.nova, self._opened),
            "neutron": self.neutron_for_ports,
        }


def or_reasons(
    command: base.PlacementCommand, nova_conf: pathlib.Path | None = None
) -> health.HealthServices:
    """Placement, nova and neutron; of the last two the reason, if one is not there."""
    from osc_placement.workflows.health import health

    cloud, options = NovaServices(command), options_of(nova_conf)
    nova, neutron = _or_reason(lambda: cloud.nova), _or_reason(lambda: cloud.neutron)
    return health.HealthServices(command.connect(), nova, neutron, options)


def options_of(nova_conf: pathlib.Path | None) -> nova_options.SchedulerOptions:
    """The options of a nova.conf; without one, nova's defaults. Errors: PlacementError."""
    from osc_placement.scheduling import nova_options

    options = nova_options.SchedulerOptions()
    return nova_options.read_nova_conf(nova_conf, options) if nova_conf else options


def add_nova_conf(group: argparse._ActionsContainer) -> None:
    """Add ``--nova-conf``, for commands that compare flavors with hosts."""
    arguments.add_file(
        group,
        "--nova-conf",
        "The nova.conf of nova's scheduler: it has the request filters that are on, and the"
        " PCI aliases",
    )


def _or_reason(opened: Callable[[], T]) -> T | str:
    """A service, or why it is not there."""
    try:
        return opened()
    except errors.PlacementError as error:
        return str(error)


def nova_at_hand(command: base.PlacementCommand) -> Callable[[], api.Nova] | None:
    """How to open nova: of the recording, the snapshot or the cloud; None on a database file."""
    recording = command.nova_recording
    if recording is not None:
        return lambda: _recorded(recording)
    if command.runs_on_recording:
        return lambda: _saved(command)
    return (lambda: _session_nova(command.app)) if command.auth_required else None


def named_aggregates(command: base.PlacementCommand) -> NamedAggregates | None:
    """Nova, for names of host aggregates; None on a database file without nova."""
    from osc_placement.workflows.cloud.named_aggregates import NamedAggregates

    opened = nova_at_hand(command)
    if opened is None:
        return None
    return NamedAggregates(opened, command.write_note, changes=command.writes)


def read_context(
    command: base.PlacementCommand, workers: int, shown: progress.Progress
) -> ReadContext:
    """What a workflow reads with: Placement, and nova for names of host aggregates."""
    from osc_placement.workflows.cloud.context import ReadContext

    return ReadContext(workers, shown, named_aggregates(command))


def optional_nova(command: base.PlacementCommand, *, no_nova: bool) -> api.Nova | None:
    """Nova of the cloud, of a snapshot or of a recording; None with --no-nova or without a nova.

    Requests: none to nova. Errors: those of ``NovaServices.nova``.
    """
    opened = None if no_nova else nova_at_hand(command)
    try:
        return None if opened is None else opened()
    except _NoNova:
        return None


def add_check_options(group: argparse._ActionsContainer) -> None:
    """Add ``--no-nova`` and ``--strict``, for commands whose answer is about hosts."""
    arguments.add_flag(
        group,
        "--no-nova",
        "Do not read nova's compute services and servers: hosts whose nova-compute is down"
        " are then counted",
    )
    add_strict(group)


def add_strict(group: argparse._ActionsContainer) -> None:
    """Add ``--strict``, for commands that list what they did not check."""
    arguments.add_flag(
        group, "--strict", "Exit with 4 instead of 0 if the answer lists something as not checked"
    )


#: The exit code of an answer that is not complete, and its meaning with ``--strict``.
NOT_CHECKED = 4
STRICT = "with --strict: something was not checked"
#: The answer depends on a rule of nova of which it is not known whether it holds.
DIFFERENT = "the answers by the rules of nova that may hold differ"


def exit_code(code: int, not_checked: Collection[str], parsed_args: argparse.Namespace) -> int:
    """The code of an answer: NOT_CHECKED instead of 0 if ``--strict`` asks for it."""
    return NOT_CHECKED if code == 0 and not_checked and parsed_args.strict else code


#: A yes that a fact which was not checked can make a no.
UNKNOWN = "unknown: what was not checked can make the answer no"


def answer_code(code: int, caveats: Caveats, *, strict: bool, only_placement: bool) -> int:
    """The code of an answer: NOT_CHECKED in place of a yes that one of the doubts can turn.

    ``only_placement``: the operator asks for Placement's answer, without nova, as with
    ``--no-nova``. Only ``strict`` counts the doubts then.
    """
    can_turn = code == 0 and caveats.doubts
    return NOT_CHECKED if can_turn and (strict or not only_placement) else code


def caveat_lines(caveats: Caveats) -> list[str]:
    """The caveats of an answer, as lines of its summary."""
    from osc_placement.workflows.cloud import compute_nodes

    lines = [f"Assumed: {text}" for text in dict.fromkeys(caveats.assumed)]
    lines += [f"Not counted: {text}" for text in compute_nodes.not_counted(caveats.not_counted)]
    lines += [f"Not checked: {text}" for text in dict.fromkeys(caveats.doubts)]
    return [*lines, *(f"Note: {text}" for text in dict.fromkeys(caveats.notes))]


def not_counted_rows(not_counted: Mapping[str, str]) -> list[dict[str, str]]:
    """``[{host, reason}]`` for ``{host: why it is not counted}``."""
    return [{"host": host, "reason": why} for host, why in sorted(not_counted.items())]


def caveat_columns(caveats_of: Callable[[T], Caveats]) -> rows.Columns[T]:
    """The caveats of an answer, as columns; ``not_counted`` is ``[{host, reason}]``."""
    return {
        "assumed": lambda item: rows.lines(dict.fromkeys(caveats_of(item).assumed)),
        "not_counted": lambda item: rows.lines(not_counted_rows(caveats_of(item).not_counted)),
        "not_checked": lambda item: rows.lines(dict.fromkeys(caveats_of(item).doubts)),
        "notes": lambda item: rows.lines(dict.fromkeys(caveats_of(item).notes)),
    }


def add_check_owners(parser: argparse._ActionsContainer) -> None:
    """Add ``--check-owners``."""
    arguments.add_flag(
        parser,
        "--check-owners",
        "Read the project and user of every consumer, instead of comparing sums first",
    )


def add_skip_port_allocations(parser: argparse._ActionsContainer) -> None:
    """Add ``--skip-port-allocations``."""
    arguments.add_flag(
        parser,
        "--skip-port-allocations",
        "Do not read neutron's ports with resource requests, and do not change their allocations",
    )


def _saved(command: base.PlacementCommand) -> api.RecordedNova:
    """The responses of nova and neutron in the snapshot on which a command runs."""
    from osc_placement.nova import api

    client = command.client()
    return api.RecordedNova(client.recording(), client.target)


class _NoNova(errors.PlacementError):
    """The catalog of the cloud has no compute service."""


def _session_nova(shell: Any) -> api.SessionNova:
    """Nova over the shell's session. Errors: _NoNova."""
    from osc_placement.nova import api

    connection = shell.client_manager.sdk_connection
    if not api.has_endpoint(connection):
        raise _NoNova(
            "this cloud has no nova: its catalog lists no compute service. Give --os-nova-recording"
        )
    return api.SessionNova(connection)


def _recorded(file: str) -> api.RecordedNova:
    from osc_placement.nova import api
    from osc_placement.samples import sample

    if not pathlib.Path(file).exists():
        try:
            return api.RecordedNova(sample.sample_nova(file), f"the sample {file}")
        except sample.UnknownSample:
            pass
    return api.read_recording(pathlib.Path(file))


class _Login:
    """What osc-lib asks of a command before it authenticates; see ``base.PlacementCommand``."""

    auth_required = True

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def required_scope(self) -> bool:
        base.prepare_login(self._shell)
        return False


def authenticate(
    shell: Any, purpose: str, remedy: str = "Select a cloud (OS_CLOUD or --os-cloud)"
) -> None:
    """Authenticate a command that osc-lib has not authenticated. Errors: PlacementError."""
    from osc_placement.client import failures

    try:
        shell.prepare_to_run_command(_Login(shell))
    except errors.PlacementError:
        raise
    except Exception as error:  # osc-lib, the SDK and keystoneauth each raise their own errors.
        raise errors.PlacementError(
            f"this command {purpose}, and no cloud can be reached: {failures.text_of(error)}."
            f" {remedy}"
        ) from error
