# SPDX-License-Identifier: Apache-2.0
"""The Placements that functional tests run against, with one interface.

A target is empty at the start of a test. It has the options for ``openstack`` and accepts raw
requests, so that a test can prepare and read state without the commands under test.
"""

from __future__ import annotations

import abc
import functools
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keystoneauth1.session
import keystoneauth1.token_endpoint
import requests
import sqlalchemy

from osc_placement import microversion, testing
from osc_placement.client import api, transport, wsgi
from osc_placement.testing import service
from tests.support import plain_reading
from tests.support.peer import loading, shell, state
from tests.support.reshape import cloud_builder

if TYPE_CHECKING:
    from osc_placement.offline import app

#: A cloud is the name of a sample, or a complete document.
Cloud = str | Mapping[str, Any]

HEADERS = {"x-auth-token": "admin", "accept": "application/json"}


def document_of(cloud: Cloud) -> Mapping[str, Any]:
    """The document of a cloud."""
    return testing.sample_cloud(cloud) if isinstance(cloud, str) else cloud


def _name_of(cloud: Cloud) -> str:
    """A name of its own for each cloud."""
    if isinstance(cloud, str):
        return cloud
    return hashlib.sha256(json.dumps(cloud, sort_keys=True).encode()).hexdigest()


def admin_options(url: str) -> list[str]:
    """The global options of ``openstack`` for a service without keystone."""
    return ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]


def run_at(url: str, command: str, *arguments: str) -> shell.Outcome:
    """The outcome of ``openstack COMMAND`` with a service without keystone."""
    return shell.run([*admin_options(url), *command.split(), *arguments])


def client_at(url: str, version: microversion.Microversion | None = None) -> api.Client:
    """A client of a service without keystone."""
    auth = keystoneauth1.token_endpoint.Token(url, "admin")
    session = keystoneauth1.session.Session(auth=auth)
    return api.Client(transport.over_session(session, endpoint=url), version)


class Target(abc.ABC):
    """A Placement under test; ``options`` are the global options of ``openstack`` for it."""

    name: str
    options: list[str]
    #: The first generation of providers and consumers.
    first_generation: int = 0

    @abc.abstractmethod
    def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """One request, as a ``requests.Response``."""

    @abc.abstractmethod
    def load(self, cloud: Cloud) -> None:
        """Replace its content by a sample cloud, generations included, or by a document."""

    def request(
        self, method: str, path: str, body: Any = None, version: str = "1.39"
    ) -> requests.Response:
        """Send one request as admin; returns any response."""
        headers = {**HEADERS, "openstack-api-version": f"placement {version}"}
        return self.send(method, path, body, headers)

    def ask(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Any:
        """The JSON of a successful response, None without a body."""
        answer = self.request(method, path, body, version)
        assert answer.ok, f"{method} {path} at {version}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def state(self) -> dict[str, Any]:
        """Everything that it stores, without generations."""
        return cloud_builder.without_generations(
            plain_reading.comparable(plain_reading.read(self.ask))
        )

    def inventories(self) -> dict[str, dict[str, dict[str, float]]]:
        """``{provider's name: {resource class: inventory}}`` of all providers."""
        return {
            item["name"]: self.ask("GET", f"/resource_providers/{item['uuid']}/inventories")[
                "inventories"
            ]
            for item in self.ask("GET", "/resource_providers")["resource_providers"]
        }


class OverHttp(Target):
    """A target with a URL."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.options = admin_options(url)
        self._session = requests.Session()
        self._session.trust_env = False

    def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        return self._session.request(method, self.url + path, json=body, headers=headers)

    def load(self, cloud: Cloud) -> None:
        """Fill a service that is empty; its generations stay those of the requests."""
        loading.load(document_of(cloud), self.ask)

    def client(self) -> api.Client:
        """A client at the latest microversion."""
        return client_at(self.url, version=microversion.MAXIMUM)


class OnFile(Target):
    """The reference server in process, on an SQLite file that each command opens."""

    #: ``{cloud: bytes of its database}``; filling a database takes longer than most commands.
    _loaded: ClassVar[dict[str, bytes]] = {}

    def __init__(self, database: pathlib.Path) -> None:
        self.name = "embedded"
        self.options = ["--os-placement-database", str(database)]
        self._database = database
        # A reading command refuses a missing file.
        database.touch()

    def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        with service.InProcessPlacement(database=str(self._database)) as placement:
            return placement.session().request(
                method, placement.url + path, json=body, headers=headers
            )

    def load(self, cloud: Cloud) -> None:
        name = _name_of(cloud)
        if name not in self._loaded:
            self._database.unlink()
            with service.InProcessPlacement(database=str(self._database), load=cloud):
                pass
            self._loaded[name] = self._database.read_bytes()
        self._database.write_bytes(self._loaded[name])

    def state(self) -> dict[str, Any]:
        with service.InProcessPlacement(database=str(self._database)) as placement:
            return cloud_builder.without_generations(placement.export())


class Loopback(OverHttp):
    """The reference server in memory, on a port of its own."""

    def __init__(self, first_generation: int) -> None:
        self.first_generation = first_generation
        self._placement = service.LoopbackPlacement(
            legacy_rbac=True, first_generation=first_generation
        ).start()
        super().__init__("loopback", self._placement.url)

    def load(self, cloud: Cloud) -> None:
        self._placement.reset(cloud)

    def state(self) -> dict[str, Any]:
        return cloud_builder.without_generations(self._placement.export())

    def stop(self) -> None:
        self._placement.stop()


class OnRealDatabase(Target):
    """A target whose state is in openstack-placement's database, restored between tests."""

    database: state.DatabaseState

    def reset(self) -> None:
        """Delete everything, in a few milliseconds."""
        self.database.restore(state.EMPTY)

    def load(self, cloud: Cloud) -> None:
        self.database.restore_or(_name_of(cloud), lambda: self._fill(document_of(cloud)))

    def state(self) -> dict[str, Any]:
        document = plain_reading.comparable(self.database.document())
        return cloud_builder.without_generations(document)

    def inventories(self) -> dict[str, dict[str, dict[str, float]]]:
        providers = self.database.document()["providers"].values()
        return {item["name"]: item["inventories"] for item in providers}

    def _fill(self, document: Mapping[str, Any]) -> None:
        # Tests that load a cloud of their own leave it in the service.
        self.reset()
        loading.load(document, self.ask)
        self.database.set_generations(document)


class RealPlacement(OnRealDatabase, OverHttp):
    """openstack-placement as a service."""

    def __init__(self, url: str, database: state.DatabaseState) -> None:
        super().__init__("placement", url)
        self.database = database


class OfflinePlacement(OnRealDatabase):
    """openstack-placement in the process of each command, on the database of its configuration."""

    def __init__(self, configuration: pathlib.Path) -> None:
        self.name = "offline"
        self.options = ["--os-placement-config", str(configuration)]
        self._configuration = configuration

    @property
    def database_url(self) -> sqlalchemy.URL:
        """The URL of the database."""
        lines = self._configuration.read_text().splitlines()
        (text,) = [line for line in lines if line.startswith("connection = ")]
        return sqlalchemy.make_url(text.partition(" = ")[2])

    def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        with requests.Session() as session:
            session.mount(transport.EMBEDDED_URL, wsgi.WsgiAdapter(lambda: self._application))
            url = transport.EMBEDDED_URL + path
            return session.request(method, url, json=body, headers=headers)

    @functools.cached_property
    def _application(self) -> app.OfflineApp:
        """Loaded once; each session closes the connections, which commands would see."""
        from osc_placement.offline import app

        loaded = app.OfflineApp(str(self._configuration))
        loaded.load_for_writing()
        return loaded
