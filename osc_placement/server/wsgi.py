"""The WSGI ``application`` for gunicorn and uWSGI, configured by an environment variable.

OSC_PLACEMENT_SERVER_OPTIONS has the options of ``osc-placement-server``. The WSGI server decides
the address and the number of threads; one process at a time uses a database file.
"""

from __future__ import annotations

import os
import shlex
import sys

from osc_placement.server import app, log, options

VARIABLE = "OSC_PLACEMENT_SERVER_OPTIONS"


def _create() -> app.App:
    parsed = options.parse(shlex.split(os.environ.get(VARIABLE, "")))
    log.configure(debug=parsed.debug)
    try:
        return options.create(parsed)
    except options.CANNOT_START as error:
        sys.exit(f"{VARIABLE}: {error}")


application = _create()
