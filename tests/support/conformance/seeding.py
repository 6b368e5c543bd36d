# SPDX-License-Identifier: Apache-2.0
"""The requests by which fixtures fill the service under test."""

from __future__ import annotations

import http.client
import json
import os
import random
import urllib.parse
import uuid

LATEST = "1.39"
MAX_SEED_TIME = 20

_target = None
_rng = random.SystemRandom()


def configure(base_url, seed=None):
    """Set the server to fill; with a seed, uuids are repeatable."""
    global _target, _rng
    _target = urllib.parse.urlsplit(base_url)
    _rng = random.SystemRandom() if seed is None else random.Random(seed)


def new_uuid():
    return str(uuid.UUID(int=_rng.getrandbits(128), version=4))


class SeedError(Exception):
    """The response to a seeding request was unexpected."""


def call(method, path, body=None, version=LATEST, ok=(200, 201, 204)):
    """One request as admin; returns the decoded body, or None."""
    headers = {
        "x-auth-token": "admin",
        "accept": "application/json",
        "openstack-api-version": "placement " + version,
    }
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["content-type"] = "application/json"
    conn = http.client.HTTPConnection(_target.hostname, _target.port, timeout=MAX_SEED_TIME)
    try:
        conn.request(method, path, body=data, headers=headers)
        resp = conn.getresponse()
        answer = resp.read()
        status = resp.status
    except (OSError, http.client.HTTPException) as exc:
        raise SeedError(f"seeding: {method} {path}: {exc or repr(exc)}") from exc
    finally:
        conn.close()
    if status not in ok:
        raise SeedError(
            f"seeding: {method} {path} (placement {version}) answered {status}:"
            f" {answer.decode('utf-8', 'replace')[:400]}"
        )
    return json.loads(answer) if answer else None


class Provider:
    """A resource provider in the service under test."""

    def __init__(self, name, *aggregates, parent=None, uuid=None):
        self.name = name
        self.uuid = uuid or new_uuid()
        self.path = "/resource_providers/" + self.uuid
        body = {"name": name, "uuid": self.uuid}
        if parent is not None:
            body["parent_provider_uuid"] = parent.uuid
        call("POST", "/resource_providers", body, ok=(200, 201))
        if aggregates:
            self.aggregates(*aggregates)

    def generation(self):
        return call("GET", self.path, ok=(200,))["generation"]

    def aggregates(self, *uuids):
        # 1.18: a plain list that does not change the generation
        call("PUT", self.path + "/aggregates", list(uuids), version="1.18", ok=(200,))
        return self

    def inventory(self, resource_class, total, **more):
        if resource_class.startswith("CUSTOM_"):
            # creates or validates; empty body
            call("PUT", "/resource_classes/" + resource_class, ok=(201, 204))
        body = {"resource_class": resource_class, "total": total, "max_unit": total}
        body.update(more)
        call("POST", self.path + "/inventories", body, ok=(201,))
        return self

    def traits(self, *names):
        for name in names:
            if name.startswith("CUSTOM_"):
                call("PUT", "/traits/" + name, ok=(201, 204))
        call(
            "PUT",
            self.path + "/traits",
            {"resource_provider_generation": self.generation(), "traits": list(names)},
            ok=(200,),
        )
        return self


def allocate(provider, resources, user, project):
    """A new consumer (its uuid is returned) with an allocation."""
    consumer = new_uuid()
    # 1.37: the consumer has no type
    call(
        "PUT",
        "/allocations/" + consumer,
        {
            "allocations": {provider.uuid: {"resources": resources}},
            "user_id": user,
            "project_id": project,
            "consumer_generation": None,
        },
        version="1.37",
        ok=(204,),
    )
    return consumer


def publish(**names_to_things):
    """Put providers (their uuid) or strings into os.environ."""
    for name, thing in names_to_things.items():
        os.environ[name] = getattr(thing, "uuid", thing)
