"""A real keystone on 127.0.0.1, in the foreground: ``python -m tests.peer.keystone PORT``.

PLACEMENT_STATE_DIR is its folder. It holds the user ``admin`` (password ``lab``), a
``RegionOne`` and itself in the catalog; the rest is the test's to make.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

PASSWORD = "lab"

CONFIGURATION = """\
[database]
connection = sqlite:///{state}/keystone.sqlite
sqlite_synchronous = False
[token]
provider = fernet
[fernet_tokens]
key_repository = {state}/fernet-keys
[credential]
key_repository = {state}/credential-keys
[identity]
password_hash_rounds = 4
"""


def prepare(state: pathlib.Path, url: str) -> None:
    """Make the database, the keys and the first user."""
    (state / "keystone.conf").write_text(CONFIGURATION.format(state=state))
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    _manage(state, "db_sync")
    _manage(state, "fernet_setup", *owner)
    _manage(state, "credential_setup", *owner)
    endpoints = [f"--bootstrap-{kind}-url={url}/v3" for kind in ("public", "internal", "admin")]
    _manage(
        state,
        "bootstrap",
        f"--bootstrap-password={PASSWORD}",
        "--bootstrap-region-id=RegionOne",
        *endpoints,
    )


def _manage(state: pathlib.Path, *arguments: str) -> None:
    program = pathlib.Path(sys.executable).with_name("keystone-manage")
    subprocess.run([program, "--config-dir", str(state), *arguments], check=True)


def main() -> None:
    state, port = pathlib.Path(os.environ["PLACEMENT_STATE_DIR"]), int(sys.argv[1])
    prepare(state, f"http://127.0.0.1:{port}")
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = str(state)
    # keystone parses the command line as its own.
    sys.argv = ["keystone"]

    import waitress
    from keystone.server import wsgi

    application = wsgi.initialize_public_application()
    waitress.serve(application, host="127.0.0.1", port=port, threads=1)


if __name__ == "__main__":
    main()
