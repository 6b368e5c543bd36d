# SPDX-License-Identifier: Apache-2.0
"""The options that describe nova's request for a server, and reading that request."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
from typing import TYPE_CHECKING, Any

from osc_placement.v1.common import arguments, base, services

if TYPE_CHECKING:
    from osc_placement.nova import api
    from osc_placement.scheduling import nova_options
    from osc_placement.workflows.cloud import nova_request, nova_servers
    from osc_placement.workflows.moving.document import DrainOptions


#: The request filters that are off by default: the values of --filter, and nova's options.
FILTERS = {
    "tenant-aggregates": "limit_tenants_to_placement_aggregate",
    "image-type": "query_placement_for_image_type_support",
    "isolated-aggregates": "enable_isolated_aggregate_filtering",
    "image-metadata": "image_metadata_prefilter",
    "owner": "owner",
}

#: The values of --nova-release: ``scheduling.traits.RELEASES``.
RELEASES = tuple(range(27, 35))

#: The options of a new server, which --server excludes.
_NEW_SERVER = ("flavor", "image", "boot_from_volume", "project", "port")
#: The options that say by which rules nova makes its request.
_RULES = ("nova_conf", "nova_release", "filters")


def add_options(
    parser: argparse.ArgumentParser, *, several: bool = False, checks: bool = True
) -> None:
    """Add the options of nova's request; ``several``: of requests for new servers only.

    ``checks``: with those of commands that check hosts.
    """
    group = parser.add_argument_group("nova's request for a server")
    if several:
        arguments.add_repeated(group, "--flavor", "<flavor>", "A flavor, by name or ID.")
        group.set_defaults(server=None, request_options="--flavor")
    else:
        group.set_defaults(request_options="--flavor or --server")
        group.add_argument("--flavor", metavar="<flavor>", help="A flavor, by name or ID")
        group.add_argument(
            "--server",
            metavar="<server>",
            type=arguments.consumer_uuid,
            help="The flavor, image and ports of this server (name or UUID)",
        )
    group.add_argument("--image", metavar="<image>", help="An image, by name or ID")
    arguments.add_flag(group, "--boot-from-volume", "The root disk is a volume")
    group.add_argument(
        "--availability-zone", metavar="<zone>", help="The requested availability zone"
    )
    group.add_argument("--project", metavar="<uuid>", help="The project of the server, by UUID")
    arguments.add_repeated(group, "--port", "<uuid>", "A port of neutron with a resource request.")
    add_scheduler_options(group, checks=checks)


def add_scheduler_options(group: argparse._ActionsContainer, *, checks: bool = True) -> None:
    """Add the options that say which request filters of nova are on."""
    services.add_nova_conf(group)
    group.add_argument(
        "--nova-release",
        metavar="<release>",
        type=int,
        choices=RELEASES,
        help="The release of nova whose rules count, from 27 (2023.1) to 34 (default: by the"
        " version of its compute API)",
    )
    arguments.add_repeated(
        group,
        "--filter",
        "<filter>",
        f"A request filter that is on: {', '.join(sorted(FILTERS))}.",
        dest="filters",
        choices=sorted(FILTERS),
    )
    if checks:
        services.add_check_options(group)


def is_given(parsed_args: argparse.Namespace) -> bool:
    """Whether the command line describes a server."""
    return bool(parsed_args.flavor or parsed_args.server)


def check(
    command: base.PlacementCommand, parsed_args: argparse.Namespace, *, has_servers: bool = True
) -> None:
    """Exit with a usage error for options that exclude each other, or that have no effect.

    ``has_servers``: the command also asks how nova moves servers, by the same rules.
    """
    options = [name for name in _NEW_SERVER if getattr(parsed_args, name)]
    if parsed_args.server and options:
        option = options[0].replace("_", "-")
        command.usage_error(f"argument --server: not allowed with argument --{option}")
    if is_given(parsed_args):
        return
    if options:
        command.usage_error(f"argument --{options[0].replace('_', '-')}: needs --flavor")
    for name in ("availability_zone", *(() if has_servers else _RULES)):
        if getattr(parsed_args, name):
            option = name.removesuffix("s").replace("_", "-")
            command.usage_error(f"argument --{option}: needs {parsed_args.request_options}")


def scheduler(chosen: argparse.Namespace | DrainOptions) -> nova_options.SchedulerOptions:
    """The options of nova's scheduler. Errors: PlacementError for an invalid nova.conf."""
    from osc_placement.scheduling import nova_options

    on: dict[str, Any] = {FILTERS[name]: True for name in chosen.filters}
    options = nova_options.SchedulerOptions(release=chosen.nova_release)
    if chosen.nova_conf:
        options = nova_options.read_nova_conf(pathlib.Path(chosen.nova_conf), options)
    return dataclasses.replace(options, **on)


#: What reading the hosts with a trait needs, and what asks for it.
_TRAIT_FEATURES = (("provider required traits", "nova's rules about traits of hosts"),)


def opened(command: base.PlacementCommand) -> nova_request.RequestServices:
    """Nova, neutron and glance of the cloud or of the recording."""
    from osc_placement.workflows.cloud import nova_request

    cloud = services.NovaServices(command)
    return nova_request.RequestServices(
        cloud.nova,
        lambda: cloud.neutron,
        lambda: cloud.glance,
        functools.cache(
            lambda trait: nova_request.with_trait(command.connect(_TRAIT_FEATURES), trait)
        ),
        functools.cache(lambda: nova_request.used_traits(command.connect(_TRAIT_FEATURES))),
    )


def server_options(
    parsed_args: argparse.Namespace, flavor: str | None = None
) -> nova_request.RequestOptions:
    """The server of the options; with ``flavor``, if the command line may name several.

    Errors: PlacementError for an invalid nova.conf.
    """
    from osc_placement.workflows.cloud import nova_request

    return nova_request.RequestOptions(
        flavor=flavor or parsed_args.flavor,
        image=parsed_args.image,
        from_volume=parsed_args.boot_from_volume,
        availability_zone=parsed_args.availability_zone,
        project_id=parsed_args.project,
        ports=tuple(parsed_args.port),
        server=parsed_args.server,
        scheduler=scheduler(parsed_args),
    )


def nova_reader(
    command: base.PlacementCommand, parsed_args: argparse.Namespace
) -> nova_servers.NovaReader:
    """Reads what nova says about hosts and servers; nothing without nova.

    Requests: those of ``compute_nodes.read_server_hosts``.
    """
    from osc_placement.workflows.cloud import nova_servers

    nova = services.optional_nova(command, no_nova=parsed_args.no_nova)
    if nova is None:
        return nova_servers.NovaReader()
    return reader_of(command, scheduler(parsed_args), nova)


def reader_of(
    command: base.PlacementCommand, options: nova_options.SchedulerOptions, nova: api.Nova
) -> nova_servers.NovaReader:
    """Reads what this nova says about hosts and servers.

    Requests: those of ``compute_nodes.read_server_hosts``.
    """
    from osc_placement.nova import api
    from osc_placement.workflows.cloud import compute_nodes, nova_servers

    compute = compute_nodes.read_server_hosts(nova)
    return nova_servers.NovaReader(
        compute,
        functools.partial(nova_servers.observe, opened(command), options, compute),
        functools.partial(nova_servers.list_servers_on, nova),
        functools.partial(api.host_aggregate_uuids, nova),
    )
