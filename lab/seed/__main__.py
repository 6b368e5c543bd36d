# SPDX-License-Identifier: Apache-2.0
"""``python -m lab.seed FOLDER PORT HOSTS SERVERS all|ordinary``."""

from __future__ import annotations

import pathlib
import sys

from lab.seed import cloud_builder, faulty, hosts, moving, servers


def main() -> None:
    folder, port, host_count, server_count, kinds = sys.argv[1:]
    cloud = cloud_builder.World(pathlib.Path(folder), int(port))
    hosts.fill(cloud, int(host_count))
    servers.fill_ordinary(cloud, int(server_count))
    if kinds == "all":
        servers.fill(cloud)
        moving.fill(cloud)
        faulty.fill(cloud)
    cloud.write()


main()
