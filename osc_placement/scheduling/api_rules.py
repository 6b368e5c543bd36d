# SPDX-License-Identifier: Apache-2.0
"""What nova refuses before it asks its scheduler: the checks of its API and of its conductor. Pure.

lab/tests/test_api_refusals.py compares the rules with nova's own code.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.model import command_line
from osc_placement.nova import flavor as flavors
from osc_placement.nova.topology import is_true
from osc_placement.scheduling import traits
from osc_placement.scheduling.answer import NotKnown
from osc_placement.scheduling.case import FROM_HOST, Case, Way
from osc_placement.scheduling.rule import Check, Host, Rule, Stage

_LIVE = frozenset({Way.LIVE_MIGRATE})
_COLD = frozenset({Way.MIGRATE, Way.RESIZE})
_RESIZE = frozenset({Way.RESIZE})
_EVACUATE = frozenset({Way.EVACUATE})
_UNSHELVE = frozenset({Way.UNSHELVE})
_SHELVE = frozenset({Way.SHELVE})
_EXISTING = FROM_HOST | _UNSHELVE | _SHELVE

#: The states of a server that nova accepts for each way. Only an evacuation may have a task.
STATES: Mapping[Way, tuple[str, ...]] = {
    Way.LIVE_MIGRATE: ("active", "paused"),
    Way.MIGRATE: ("active", "stopped"),
    Way.RESIZE: ("active", "stopped"),
    Way.EVACUATE: ("active", "stopped", "error"),
    Way.UNSHELVE: ("shelved", "shelved_offloaded"),
    Way.SHELVE: ("active", "stopped", "paused", "suspended"),
}

_MOVES = _LIVE | {Way.MIGRATE}
_MOVED = frozenset(STATES[Way.LIVE_MIGRATE] + STATES[Way.MIGRATE])

#: Nova's numbers of the power states in which a guest can move live: it runs, or is paused.
_RUNNING = frozenset({1, 3})
_TPM_TRAITS = ("COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0")
_BACKED_BY_FILES = "COMPUTE_MEM_BACKING_FILE"
_ENCRYPTED = tuple(trait for _, trait in traits.ENCRYPTION_MODELS.values())
#: The traits of a server's host that rules ask for.
TRAITS = frozenset({*_TPM_TRAITS, *_ENCRYPTED, _BACKED_BY_FILES})
_TPM_MOVES_SINCE = 33
_ACCELERATED = ("accelerator-direct", "accelerator-direct-physical")


def _cell(case: Case, _: Host, __: int) -> str:
    """A server of a cell that is down."""
    return case.server.why_unknown if case.server else ""


def _vm_state(case: Case, _: Host, __: int) -> str:
    """A server in another state."""
    server = case.server
    if server is None or not server.known or server.vm_state in STATES[case.way]:
        return ""
    if case.way in _MOVES and server.vm_state not in _MOVED:
        return f"nova does not migrate a server that is {server.vm_state}"
    states = " or ".join(STATES[case.way])
    return f"{case.way} needs a server that is {states}, and it is {server.vm_state}"


def _task_state(case: Case, _: Host, __: int) -> str:
    """A server with a task."""
    task = case.server.task_state if case.server else None
    does = "migrate" if case.way in _MOVES else case.way
    return f"nova does not {does} it while its task is {task}" if task else ""


def _power_state(case: Case, _: Host, __: int) -> str:
    """A server whose guest does not run."""
    server = case.server
    if server is None or server.power_state in _RUNNING:
        return ""
    if server.power_state is None:
        raise NotKnown("whether its guest runs: nova does not show its power state")
    return f"its guest does not run (power state {server.power_state}): nova moves it only cold"


def _no_host(case: Case, _: Host, __: int) -> str:
    """A server that is on no host."""
    return "it is on no host" if case.server and not case.source else ""


def _not_launched(case: Case, _: Host, __: int) -> str:
    """A server that was never started."""
    is_new = case.server is not None and not case.server.launched
    return "it was never started, so nova does not evacuate it" if is_new else ""


def _shelved(case: Case, _: Host, __: int) -> str:
    """A shelved server that is still on its host, with a host or a zone."""
    if case.server is None or case.server.vm_state != "shelved":
        return ""
    if not case.target and not case.spec.names_zone:
        return ""
    return f"it is shelved and still on {case.source}: nova takes neither host nor zone then"


def _ironic(case: Case, _: Host, __: int) -> str:
    """A server of an Ironic node."""
    if any(node.is_ironic for node in case.source_nodes):
        return "nova does not migrate a server of an Ironic node"
    return ""


def _source_up(case: Case, _: Host, __: int) -> str:
    """An evacuation from a host whose nova-compute is up."""
    host = case.source
    if not host or not is_up(case) or case.source_fails:
        return ""
    down = command_line.line(
        "compute service set", host, "nova-compute", options=[("--down", None)]
    )
    return (
        f"nova-compute on {host} is up, and nova evacuates only from a host that is down; if it is"
        f" really off: {down}"
    )


def _source_down(case: Case, _: Host, __: int) -> str:
    """A move from a host whose nova-compute is down."""
    if not case.source or is_up(case):
        return ""
    return f"nova-compute on {case.source} is not up; if the host is off: evacuate it"


def is_up(case: Case) -> bool:
    """Whether nova-compute of the source reports to nova. Errors: NotKnown."""
    if case.compute.hosts is None:
        raise NotKnown("; ".join(case.compute.not_checked))
    return case.compute.runs(case.source)


def _tpm(case: Case, _: Host, release: int) -> str:
    """A server with a virtual TPM; from nova 33 on nova moves one live with
    hw:tpm_secret_security=host.
    """
    version = _tpm_version(case)
    if not version:
        return ""
    security = case.spec.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
    moves = release >= _TPM_MOVES_SINCE and security == "host" and case.way is Way.LIVE_MIGRATE
    if moves and release == _TPM_MOVES_SINCE and not case.is_newest:
        raise NotKnown(
            "whether every nova-compute is of nova 33 or later, as a virtual TPM needs: nova does"
            " not show it"
        )
    return "" if moves else f"it has a virtual TPM ({version})"


def _tpm_version(case: Case) -> str:
    """Where the virtual TPM comes from; empty without one. Errors: NotKnown."""
    return _property(case, "hw:tpm_version", "hw_tpm_version", _TPM_TRAITS)


def _property(case: Case, spec: str, key: str, names: tuple[str, ...]) -> str:
    """``key=value`` of an extra spec or image property; an unknown image has none without a trait.

    Errors: NotKnown.
    """
    own = case.spec.flavor.extra_specs.get(spec)
    if own:
        return f"{spec}={own}"
    try:
        value = case.image.get(key)
    except NotKnown:
        if case.may_have(names):
            raise
        return ""
    return f"{key}={value}" if value else ""


def _encryption(case: Case, _: Host, __: int) -> str:
    """A server with encrypted memory."""
    origin = _property(case, "hw:mem_encryption", "hw_mem_encryption", _ENCRYPTED)
    is_encrypted = is_true(origin.partition("=")[2])
    return f"it has encrypted memory ({origin})" if is_encrypted else ""


def _device_profile(case: Case, _: Host, __: int) -> str:
    """A server with a device of Cyborg."""
    server = case.server
    own = server.flavor.extra_specs if server and server.flavor else {}
    profile = case.spec.flavor.extra_specs.get(_PROFILE) or own.get(_PROFILE)
    return f"it has a device of Cyborg ({_PROFILE}={profile})" if profile else ""


_PROFILE = "accel:device_profile"


def _accelerated_port(case: Case, _: Host, __: int) -> str:
    """A server with a port of the VNIC type accelerator-direct or accelerator-direct-physical."""
    ports = [port for port in case.spec.ports if port.vnic_type in _ACCELERATED]
    return f"its port {ports[0].name} has the VNIC type {ports[0].vnic_type}" if ports else ""


def _pci(case: Case, _: Host, release: int) -> str:
    """A server with PCI devices; from nova 31 on nova moves those of an alias that is
    live_migratable.
    """
    names = list(
        dict.fromkeys(name for name, _ in flavors.pci_devices(case.spec.flavor.extra_specs))
    )
    if not names:
        return ""
    text = f"it has PCI devices ({', '.join(names)})"
    if release < _LIVE_DEVICES_SINCE:
        return text
    aliases = case.options.aliases
    if aliases is None:
        raise NotKnown(
            f"{text}: whether their alias is live_migratable stands in nova.conf (--nova-conf)"
        )
    is_moved = all(
        name in aliases and all(alias.is_live_migratable for alias in aliases[name])
        for name in names
    )
    return "" if is_moved else f"{text} that are not live_migratable"


def _share(case: Case, _: Host, release: int) -> str:
    """A server with a share; nova 34 moves one cold once every nova-compute is nova 34."""
    server = case.server
    if server is None or not _may_have_share(case) or not case.facts.has_share(server):
        return ""
    moves_cold = case.way in _COLD and release >= _SHARES_MOVE_SINCE
    return "" if moves_cold and case.is_newest else "a share of manila is attached"


def _may_have_share(case: Case) -> bool:
    """A share needs memory in large pages, or in files of the host. Errors: NotKnown.

    Large pages that an unknown image asks for are not considered.
    """
    flavor = (case.server and case.server.flavor) or case.spec.flavor
    if flavor.extra_specs.get("hw:mem_page_size"):
        return True
    if (case.spec.image or {}).get("hw_mem_page_size"):
        return True
    return case.may_have((_BACKED_BY_FILES,))


_SHARES_SINCE, _SHARES_MOVE_SINCE = 31, 34
_LIVE_DEVICES_SINCE = 31


def _vdpa(case: Case, _: Host, release: int) -> str:
    """A server with a vDPA port, if a nova-compute is too old."""
    ports = [port.name for port in case.spec.ports if port.vnic_type == "vdpa"]
    if ports and release == traits.RELEASES[0]:
        raise NotKnown(
            f"whether every nova-compute can move the vDPA port {ports[0]} live: nova does not show"
            " the versions of its services"
        )
    return ""


def _same_flavor(case: Case, _: Host, __: int) -> str:
    """A resize to the flavor that the server has."""
    server, spec = case.server, case.spec
    is_same = server and (spec.flavor_name, spec.flavor) == (server.flavor_name, server.flavor)
    return f"the server has the flavor {spec.flavor_name} already" if is_same else ""


def _disabled_flavor(case: Case, _: Host, __: int) -> str:
    """A resize to a disabled flavor."""
    return f"the flavor {case.spec.name} is disabled" if case.is_disabled else ""


def _smaller_disk(case: Case, _: Host, __: int) -> str:
    """A resize to a smaller root disk of an image."""
    server = case.server
    if server is None or server.flavor is None or case.spec.from_volume:
        return ""
    now, new = server.flavor.disk, case.spec.flavor.disk
    if new < now and case.spec.why_local_disk:
        raise NotKnown(f"whether its root disk is a volume: {case.spec.why_local_disk}")
    return f"its root disk would shrink from {now} to {new} GB" if new < now else ""


def _tpm_secret(case: Case, _: Host, release: int) -> str:
    """A resize that changes hw:tpm_secret_security to or from deployment."""
    both = [named for named in (case.server and case.server.flavor, case.spec.flavor) if named]
    secrets = [named.extra_specs.get("hw:tpm_secret_security") or "user" for named in both]
    if len({*secrets}) == 1 or "deployment" not in secrets:
        return ""
    flavors_have_it = [named.extra_specs.get("hw:tpm_version") for named in both]
    if not all(flavors_have_it) and not case.image.get("hw_tpm_version"):
        return ""
    if release == _TPM_MOVES_SINCE:
        raise NotKnown("whether nova 33 changes hw:tpm_secret_security")
    return f"hw:tpm_secret_security would change from {' to '.join(secrets)}"


def _source_target(case: Case, host: Host, _: int) -> str:
    """The host on which the server is."""
    return "the server is there" if case.leaves and host.name == case.source else ""


def _several_nodes(case: Case, host: Host, _: int) -> str:
    """A named host with several compute nodes."""
    if case.target == host.name and len(case.compute.nodes_of(host.name)) > 1:
        return f"{host.name} has several compute nodes: nova moves no server to such a host"
    return ""


def _hypervisor(case: Case, host: Host, _: int) -> str:
    """A hypervisor of another type or an older version than that of the source."""
    if host.node is None:
        return ""
    for source in case.source_nodes:
        (kind, version), (other, lowest) = host.node.hypervisor, source.hypervisor
        if kind and other and kind != other:
            return f"its hypervisor is {kind}, that of the source {other}"
        if version and version < lowest:
            return f"its hypervisor is older than that of the source ({version}, {lowest})"
    return ""


#: Nova moves a server that was requested in a zone within this zone only.
ZONE_HIDDEN = "the zone in which a server was requested: nova shows it from compute API 2.96 on"
_ZONE = "availability_zone"


def _zone(case: Case, host: Host, _: int) -> str:
    """A host in another zone than the one in which the server was requested."""
    server = case.server
    if server is None or server.shows_zone or case.spec.availability_zone:
        return ""
    has_zones = any(_ZONE in aggregate.metadata for aggregate in case.aggregates)
    own = {
        aggregate.metadata[_ZONE]
        for aggregate in case.aggregates
        if _ZONE in aggregate.metadata and case.source in aggregate.hosts
    }
    if not has_zones or (case.source and host.metadata(_ZONE) == own):
        return ""
    raise NotKnown(ZONE_HIDDEN)


def _request(case: Case, _: Host, __: int) -> str:
    """A flavor and an image of which nova, or Placement, refuses the request."""
    return case.why_no_request


def _api(name: str, check: Check, ways: frozenset[Way], since: int = 27, until: int = 34) -> Rule:
    return Rule(name, Stage.API, check, ways, since, until)


#: The rules of nova-api, in nova's order as far as it shows.
API_RULES: tuple[Rule, ...] = (
    _api("CellUnreachable", _cell, _EXISTING),
    _api("IronicServer", _ironic, FROM_HOST | _SHELVE),
    _api("InstanceInvalidState: shelved", _shelved, _UNSHELVE),
    _api("InstanceInvalidState: vm_state", _vm_state, _EXISTING),
    _api("InstanceInvalidState: task_state", _task_state, _EXISTING - _EVACUATE),
    _api("NoHost", _no_host, FROM_HOST),
    _api("NotLaunched", _not_launched, _EVACUATE),
    _api("OperationNotSupportedForVTPM", _tpm, _LIVE | _EVACUATE | _SHELVE),
    _api("OperationNotSupportedForMemEncryption", _encryption, _LIVE),
    _api("ForbiddenWithAccelerators", _device_profile, _LIVE | _COLD),
    _api("ForbiddenWithShare", _share, FROM_HOST | _SHELVE, since=_SHARES_SINCE),
    _api("ForbiddenPortsWithAccelerator", _accelerated_port, FROM_HOST | _SHELVE),
    _api("OperationNotSupportedForVDPAInterface", _vdpa, _LIVE, until=27),
    _api("MigrationPreCheckError", _pci, _LIVE),
    _api("InstanceInvalidState: power_state", _power_state, _LIVE),
    _api("ComputeServiceInUse", _source_up, _EVACUATE),
    _api("ComputeServiceUnavailable", _source_down, _LIVE | _COLD),
    _api("CannotResizeToSameFlavor", _same_flavor, _RESIZE),
    _api("FlavorNotFound", _disabled_flavor, _RESIZE),
    _api("CannotResizeDisk", _smaller_disk, _RESIZE),
    _api("OperationNotSupportedForVTPM: secret", _tpm_secret, _RESIZE, since=33),
    Rule("request", Stage.QUERY, _request),
)

#: What nova refuses about the target, whatever its filters say.
TARGET_RULES: tuple[Rule, ...] = (
    Rule("requested zone", Stage.QUERY, _zone),
    Rule("ignore_hosts", Stage.TARGET, _source_target, FROM_HOST, by_host=True),
    Rule("several compute nodes", Stage.TARGET, _several_nodes, FROM_HOST, by_host=True),
    Rule("ignore_hosts: hypervisor", Stage.TARGET, _hypervisor, _LIVE),
)
