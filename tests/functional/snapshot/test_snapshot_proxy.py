# SPDX-License-Identifier: Apache-2.0
"""The recording proxy in front of a Placement with HTTPS."""

from __future__ import annotations

import datetime
import ipaddress
import json
import pathlib
import ssl
import threading
import wsgiref.simple_server
from collections.abc import Iterator

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from osc_placement.testing import service
from osc_placement.workflows.snapshot import proxy
from tests.support.peer import target as targets

QUERY = "resources=VCPU:1&limit=3"
HEADERS = {"x-auth-token": "admin", "openstack-api-version": "placement 1.36"}


def certificate(path: pathlib.Path) -> pathlib.Path:
    """A certificate of 127.0.0.1 that it signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "placement")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def trusted(tmp_path: pathlib.Path) -> pathlib.Path:
    return certificate(tmp_path / "placement.pem")


@pytest.fixture
def upstream(trusted: pathlib.Path) -> Iterator[str]:
    """The URL of a Placement with HTTPS."""
    with service.InProcessPlacement(load="12-hosts") as placement:
        server = wsgiref.simple_server.make_server(
            "127.0.0.1", 0, placement.app, handler_class=Quiet
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(trusted)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.mark.parametrize("trusts", [True, False])
def test_queries_to_an_https_endpoint_are_recorded(
    upstream: str, trusted: pathlib.Path, tmp_path: pathlib.Path, trusts: bool
) -> None:
    client = targets.client_at(upstream, "bob", verify=str(trusted) if trusts else True)
    path = tmp_path / "recording.jsonl"
    running = proxy.Proxy(client, path, 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    sender = requests.Session()
    sender.trust_env = False
    answer = sender.get(f"{running.url}/allocation_candidates?{QUERY}", headers=HEADERS)
    running.stop()
    thread.join(10)
    if not trusts:
        assert (answer.status_code, running.recorded) == (502, 0)
        assert "certificate" in answer.text.lower()
        return
    assert answer.status_code == 200, answer.text
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["query"] == QUERY
    assert len(json.loads(line)["candidates"]) == 3
