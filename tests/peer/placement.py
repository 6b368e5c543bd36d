"""The real openstack-placement in the foreground: ``python -m tests.peer.placement PORT``.

From the environment, as every server that the tests start:

* PLACEMENT_FIXTURE: ``default``, ``legacy-rbac``, ``secure-rbac``, ``open-policy`` or ``cors``;
* PLACEMENT_STATE_DIR: a folder of its own. A ``placement.sqlite`` that stands there
  already is used as it is; without one the service makes an empty one;
* PLACEMENT_DURABLE: ``yes`` waits at each write until it is on disk, as the service itself does.
* PLACEMENT_DATABASE: the URL of another database than that SQLite file, as SQLAlchemy takes it.

On 127.0.0.1, one worker with one thread: on SQLite the service answers concurrent writers with
500. On another database it has eight threads.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

OPEN_POLICY = pathlib.Path(__file__).with_name("open-policy.yaml")

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

CORS = """\
[cors]
allowed_origin = http://valid.example.com
allow_headers = openstack-api-version
"""


def configure(state: pathlib.Path, fixture: str) -> None:
    """Write ``placement.conf`` for one of the configurations into ``state``."""
    policy = OPEN_POLICY if fixture == "open-policy" else state / "policy.yaml"
    (state / "policy.yaml").write_text("{}\n")
    text = CONFIGURATION.format(
        database=os.environ.get("PLACEMENT_DATABASE") or f"sqlite:///{state}/placement.sqlite",
        sync=not (state / "placement.sqlite").exists(),
        durable=os.environ.get("PLACEMENT_DURABLE", "no") == "yes",
        new_defaults=fixture == "secure-rbac",
        policy=policy,
    )
    if fixture == "cors":
        text += CORS
    (state / "placement.conf").write_text(text)


def main() -> None:
    state = pathlib.Path(os.environ.get("PLACEMENT_STATE_DIR") or tempfile.mkdtemp())
    configure(state, os.environ.get("PLACEMENT_FIXTURE", "default"))
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(state)

    import waitress
    from placement import wsgi

    application = wsgi.init_application()
    threads = 8 if os.environ.get("PLACEMENT_DATABASE") else 1
    waitress.serve(application, host="127.0.0.1", port=int(sys.argv[1]), threads=threads)


if __name__ == "__main__":
    main()
