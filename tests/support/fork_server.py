# SPDX-License-Identifier: Apache-2.0
"""Starts servers by forking, so that a hundred of them take seconds.

``python -m tests.support.fork_server`` reads database paths on standard input, starts a server on
each, and prints its process id and URL.
"""

from __future__ import annotations

import os
import signal
import sys

from osc_placement import server
from osc_placement.server.run import HttpServer


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        sys.stdout.flush()
        if os.fork() == 0:
            run(line.strip())
            os._exit(0)


def run(path: str) -> None:
    """Serve a database until the process is killed."""
    app = server.create_app(path)
    service = HttpServer(app, "127.0.0.1", 0)
    sys.stdout.write(f"{os.getpid()} {service.url}\n")
    sys.stdout.flush()
    service.run()


if __name__ == "__main__":
    main()
