# SPDX-License-Identifier: Apache-2.0
"""The real openstack-placement in the foreground: ``python -m tests.support.peer.placement PORT``.

From the environment, as every server that the tests start:

* PLACEMENT_FIXTURE: ``default``, ``legacy-rbac``, ``secure-rbac``, ``open-policy``, ``cors`` or
  ``breadth-first`` (at most five candidates, one of each tree in turn);
* PLACEMENT_STATE_DIR: a folder. An existing ``placement.sqlite`` in it
  already is used as it is; without one the service makes an empty one;
* PLACEMENT_DURABLE: ``yes`` waits at each write until it is on disk, as the service itself does.
* PLACEMENT_DATABASE: the URL of another database than that SQLite file, as SQLAlchemy takes it.

On 127.0.0.1, one worker with one thread: on SQLite the service answers concurrent writers with
500. On another database it is two workers with one thread each, as deployments have it.
"""

from __future__ import annotations

import functools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable

OPEN_POLICY = pathlib.Path(__file__).with_name("open-policy.yaml")

WORKERS, THREADS = 2, 1

CONFIGURATION = """\
[DEFAULT]
default_log_levels = placement=ERROR,oslo=ERROR,sqlalchemy=ERROR,alembic=ERROR
[api]
auth_strategy = noauth2
[placement_database]
connection = {database}
sync_on_startup = {sync}
sqlite_synchronous = {durable}
[oslo_policy]
enforce_scope = True
enforce_new_defaults = {new_defaults}
policy_file = {policy}
"""

BREADTH_FIRST = """\
[placement]
max_allocation_candidates = 5
allocation_candidates_generation_strategy = breadth-first
"""

CORS = """\
[cors]
allowed_origin = http://valid.example.com
allow_headers = openstack-api-version
"""


def configure(state: pathlib.Path, fixture: str, database: str = "") -> pathlib.Path:
    """Write ``placement.conf`` for one of the configurations into ``state``; its path."""
    database = database or os.environ.get("PLACEMENT_DATABASE", "")
    policy = OPEN_POLICY if fixture == "open-policy" else state / "policy.yaml"
    (state / "policy.yaml").write_text("{}\n")
    text = CONFIGURATION.format(
        database=database or f"sqlite:///{state}/placement.sqlite",
        sync=not (state / "placement.sqlite").exists(),
        durable=os.environ.get("PLACEMENT_DURABLE", "no") == "yes",
        new_defaults=fixture == "secure-rbac",
        policy=policy,
    )
    text += {"cors": CORS, "breadth-first": BREADTH_FIRST}.get(fixture, "")
    path = state / "placement.conf"
    path.write_text(text)
    return path


def create_tables(configuration: pathlib.Path) -> None:
    """Create the tables of an empty database, as an operator does before the first start."""
    program = pathlib.Path(sys.executable).with_name("placement-manage")
    command = [str(program), "--config-file", str(configuration), "db", "sync"]
    subprocess.run(command, check=True, capture_output=True)


def serve(listening: socket.socket, threads: int, ready: Callable[[], None]) -> None:
    """One worker in this process; ``ready`` is called when it accepts requests."""
    import waitress
    from placement import wsgi

    application = wsgi.init_application()
    # Waitress does its input and output in a thread. Web servers that are not written in Python do
    # it while a request is handled, so switch threads often.
    sys.setswitchinterval(0.0005)
    ready()
    waitress.serve(application, sockets=[listening], threads=threads)


def serve_workers(listening: socket.socket, workers: int) -> None:
    """Several workers, as a WSGI server starts them; the first one creates the tables."""
    for _ in range(workers):
        reading, writing = os.pipe()
        if not os.fork():
            serve(listening, THREADS, functools.partial(os.close, writing))
            os._exit(0)
        os.close(writing)
        os.read(reading, 1)
    os.wait()


def main() -> None:
    state = pathlib.Path(os.environ.get("PLACEMENT_STATE_DIR") or tempfile.mkdtemp())
    configure(state, os.environ.get("PLACEMENT_FIXTURE", "default"))
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(state)
    listening = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
    if os.environ.get("PLACEMENT_DATABASE"):
        serve_workers(listening, WORKERS)
    else:
        serve(listening, 1, lambda: None)


if __name__ == "__main__":
    main()
