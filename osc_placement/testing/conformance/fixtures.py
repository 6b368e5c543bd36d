# SPDX-License-Identifier: Apache-2.0
"""What the YAML files need besides gabbi: an empty Placement before and after each of them."""

from __future__ import annotations

import contextlib
import os
import unittest

from gabbi import fixture
from keystoneauth1 import session, token_endpoint

from osc_placement import microversion
from osc_placement.client import api, api_errors, transport

URL, TOKEN = "OSC_PLACEMENT_URL", "OSC_PLACEMENT_TOKEN"


def client_of(url: str, token: str) -> api.Client:
    """A client of the Placement at a URL. Sends nothing."""
    identity = session.Session(auth=token_endpoint.Token(url, token))
    return api.Client(transport.over_session(identity, endpoint=url), microversion.MAXIMUM)


def empty(client: api.Client) -> None:
    """Delete every consumer, provider, custom trait and custom resource class.

    Requests: one GET and one DELETE for each, and one GET for each listing.
    Errors: Conflict for a provider that cannot be deleted.
    """
    providers = client.list_providers()
    for consumer in {
        consumer
        for provider in providers
        for consumer in client.list_provider_allocations(provider.uuid).allocations
    }:
        client.delete_allocations(consumer)
    while providers:
        parents = {provider.parent_uuid for provider in providers}
        for provider in providers:
            if provider.uuid not in parents:
                client.delete_provider(provider.uuid)
        providers = [provider for provider in providers if provider.uuid in parents]
    for trait in client.list_traits("startswith:CUSTOM_"):
        client.delete_trait(trait)
    for name in client.list_resource_classes():
        if name.startswith("CUSTOM_"):
            client.delete_resource_class(name)


class EmptyPlacement(fixture.GabbiFixture):  # type: ignore[misc]
    """Deletes what the tests of a file have created, and what an interrupted run left."""

    def start_fixture(self) -> None:
        """Empty the Placement, so that a faulty one fails in the tests only."""
        try:
            with contextlib.closing(client_of(os.environ[URL], os.environ[TOKEN])) as client:
                empty(client)
        except api_errors.ApiError as error:
            raise RuntimeError(f"{os.environ[URL]} cannot be emptied: {error}") from error

    stop_fixture = start_fixture


class Reshaper(fixture.GabbiFixture):  # type: ignore[misc]
    """Skips the tests of a file where the service's policy does not let the token reshape."""

    def start_fixture(self) -> None:
        """Ask once. Requests: one POST that changes nothing. Errors: SkipTest."""
        try:
            with contextlib.closing(client_of(os.environ[URL], os.environ[TOKEN])) as client:
                client.check_reshape()
        except api_errors.Forbidden as error:
            raise unittest.SkipTest(
                "this token may not reshape: use a token with the role service, or a policy file"
                f" with {error.rule or 'placement:reshaper:reshape'}"
            ) from error
