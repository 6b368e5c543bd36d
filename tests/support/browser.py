# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that opens files: what it requests, logs and measures, and its pictures.

The DevTools protocol over a pipe needs no other package. ``python -m tests.support.browser
PAGE.html PICTURE.webp`` takes a picture of a page.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

#: What Chromium reads commands from, and writes answers to.
_IN, _OUT = 3, 4

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
)


class Tab:
    """A page of the browser. ``requests`` are all URLs but that of the page; ``log`` its errors."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, os.fdopen(read, "rb", buffering=0)
        self._buffer, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.log: list[str] = []
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(
        self, path: pathlib.Path, width: int, *, dark: bool = False, printed: bool = False
    ) -> None:
        """Open a file in a window of this width (CSS pixels)."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send(
            "Emulation.setEmulatedMedia",
            media="print" if printed else "screen",
            features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )
        self._page, self._loaded = path.resolve().as_uri(), False
        self.send("Page.navigate", url=self._page)
        while not self._loaded:
            self._take(self._message())

    def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression; a promise is awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key: ``press("Tab", 9)``."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def picture(
        self,
        path: pathlib.Path,
        *,
        height: int = 8000,
        quality: int = 80,
        top: int = 0,
        scale: float = 1,
    ) -> None:
        """Write a picture of the page from ``top``, as WebP or PNG by the name of the file."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": top,
            "width": size["width"],
            "height": min(height, size["height"] - top),
            "scale": scale,
        }
        form = path.suffix.removeprefix(".")
        options = {} if form == "png" else {"quality": quality}
        data = self.send(
            "Page.captureScreenshot", format=form, clip=clip, captureBeyondViewport=True, **options
        )["data"]
        path.write_bytes(base64.b64decode(data))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._take(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            received = self._read.read(1 << 20)
            assert received, "Chromium ended"
            self._buffer += received
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _take(self, event: dict[str, Any]) -> None:
        """Keep what an event says."""
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if url != self._page and not url.startswith("data:"):
                    self.requests.append(url)
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.log.append(json.dumps(parameters))
            case "Page.loadEventFired":
                self._loaded = True


@contextlib.contextmanager
def opened() -> Iterator[Tab]:
    """A tab of a new browser, which ends with the block."""
    assert CHROMIUM is not None
    to_browser, from_browser = os.pipe(), os.pipe()

    def keep_pipes() -> None:
        """Give the ends their numbers; high copies first, so that neither replaces the other."""
        ends = [os.dup(to_browser[0]), os.dup(from_browser[1])]
        os.dup2(ends[0], _IN)
        os.dup2(ends[1], _OUT)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            close_fds=False,
            preexec_fn=keep_pipes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Tab(to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])
            browser.terminate()
            browser.wait(timeout=120)


def main() -> None:
    page, picture = map(pathlib.Path, sys.argv[1:])
    with opened() as tab:
        tab.open(page, 1280)
        tab.picture(picture, height=1980, quality=60, scale=0.65)


if __name__ == "__main__":
    main()
