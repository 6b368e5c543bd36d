# SPDX-License-Identifier: Apache-2.0
"""Reads provider configuration files with nova's own code and the lab's Python.

Reads ``{name: text}`` from stdin, and prints ``{name: error}``, which is empty for a valid file.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile


def verdict(text: str) -> str:
    """The error of nova for a file with this text."""
    from nova import exception
    from nova.compute import provider_config

    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "provider.yaml").write_text(text)
        try:
            provider_config.get_provider_configs(folder)
        except exception.ProviderConfigException as error:
            return str(error)
    return ""


def main() -> None:
    files = json.load(sys.stdin)
    sys.stdout.write(json.dumps({name: verdict(text) for name, text in files.items()}))


if __name__ == "__main__":
    main()
