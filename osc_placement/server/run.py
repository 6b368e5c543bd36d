"""The command ``osc-placement-server``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from osc_placement.server import app, log, options as server_options, serve
from osc_placement.server.store import errors, sqlite

#: Time after which one thread lets another one compute.
SWITCH_SECONDS = 0.001


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns 0, or 1 with the reason on stderr."""
    options = server_options.parse(arguments)
    log.configure(debug=options.debug)
    serve.raise_file_limit()
    if options.check is not None:
        return _check(options.check)
    try:
        _check_database(options)
        placement = server_options.create(options)
    except server_options.CANNOT_START as error:
        return _fail(error)
    # The loaded state stays for the life of the process: exclude it from garbage collection.
    gc.freeze()
    # Searches compute for seconds: threads of other requests get their turn soon.
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        if options.export is not None:
            _export(placement, options.export)
            return 0
        if options.exit:
            sys.stdout.write(f"{options.database}: {options.load} is loaded\n")
            return 0
        server = serve.Server(
            placement, options.host, options.port, placement.threads, placement.stop
        )
        server.stop_on_signals()
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        server.run()
    except serve.CannotStart as error:
        return _fail(error)
    finally:
        placement.close()
    return 0


def _check(path: str) -> int:
    """Check a database; 0, or 1 with the problems on stderr."""
    if not os.path.exists(path):
        return _fail(serve.CannotStart(f"database {path} does not exist"))
    try:
        store = sqlite.SqliteStore(path)
        with contextlib.closing(store):
            store.check()
            records = store.load()
    except errors.StoreError as error:
        return _fail(error)
    sys.stdout.write(
        f"{path}: {len(records.providers)} providers, {len(records.consumers)} consumers,"
        " no problems\n"
    )
    return 0


def _fail(error: Exception) -> int:
    sys.stderr.write(f"osc-placement-server: {error}\n")
    return 1


def _check_database(options: argparse.Namespace) -> None:
    """An export must not create a database from a misspelt name."""
    exports_existing = options.load is None and options.database is not None
    if options.export is not None and exports_existing and not os.path.exists(options.database):
        raise serve.CannotStart(
            f"database {options.database} does not exist, so it cannot be exported"
        )


def _export(placement: app.App, path: str) -> None:
    text = json.dumps(placement.export(), indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    goal = pathlib.Path(path)
    try:
        if goal.exists() and not goal.is_file():
            # Do not replace a device such as /dev/null by a file.
            goal.write_text(text, encoding="utf-8")
            return
        # A name that nobody can foresee, and mode 0600: the document names projects and users.
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{goal.name}.", dir=goal.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, goal)
        except BaseException:
            os.unlink(unfinished)
            raise
    except OSError as error:
        raise serve.CannotStart(f"{path} cannot be written: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
