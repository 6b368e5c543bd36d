# SPDX-License-Identifier: Apache-2.0
"""The WSGI ``application`` for gunicorn and uWSGI, configured by an environment variable.

OSC_PLACEMENT_SERVER_OPTIONS has the options of ``osc-placement-server``. The WSGI server decides
the address and the number of threads; one process at a time uses a database file.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import NoReturn

from osc_placement.server import app, log, options

VARIABLE = "OSC_PLACEMENT_SERVER_OPTIONS"

#: gunicorn ends when a worker has this exit code. After others it starts workers again and again.
_CANNOT_BOOT = 3


def _create() -> app.App:
    words = _words()
    try:
        parsed = options.parse(words)
        if parsed.exit or parsed.check or parsed.export:
            raise SystemExit
        log.configure(debug=parsed.debug)
        return options.create(parsed)
    except SystemExit:
        # A usage error, or an option such as --help, which prints and ends.
        _fail("these options of osc-placement-server start no server")
    except options.CANNOT_START as error:
        _fail(str(error))


def _words() -> list[str]:
    try:
        return shlex.split(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        _fail(str(error))


def _fail(reason: str) -> NoReturn:
    sys.stderr.write(f"{VARIABLE}: {reason}\n")
    sys.exit(_CANNOT_BOOT)


application = _create()
