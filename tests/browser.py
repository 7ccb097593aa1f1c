"""Headless Chromium over the DevTools protocol, with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120.0  # seconds without an answer before a run counts as hung
# Chromium reads commands from descriptor 3 and answers on 4.
LAUNCH = (
    "import os, sys; from fcntl import F_DUPFD, fcntl; "
    # First out of the way: they could be 3 and 4 themselves, the wrong way round.
    "reads, writes = (fcntl(int(given), F_DUPFD, 10) for given in sys.argv[1:3]); "
    "os.dup2(reads, 3); os.dup2(writes, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str | None:
    """Path of an installed Chromium or Chrome."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """A tab of a browser without windows; what happens in it is kept in ``events``."""

    def __init__(self, executable: str, profile: Path) -> None:
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]
        flags += ["--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"]
        flags += ["--hide-scrollbars", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(reads), str(writes), executable, *flags],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        tab = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def load(self, url: str) -> None:
        """Go to a page and wait until everything in it is loaded."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        while not self.seen("Page.loadEventFired"):
            self.events.append(self._receive())

    def open(self, url: str) -> None:
        """Load a page and let it be drawn; whatever it says or asks for until then is kept."""
        self.load(url)
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def count(self, selector: str) -> int:
        """Elements of the page, also where scripts are not allowed."""
        root = self.send("DOM.getDocument", depth=0)["root"]["nodeId"]
        return len(self.send("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])

    def seen(self, method: str) -> list[dict[str, Any]]:
        """Parameters of all events of this name since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        return [event["request"]["url"] for event in self.seen("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Errors, warnings and anything else that was written to the console."""
        said = [str(event["entry"]["text"]) for event in self.seen("Log.entryAdded")]
        said += [str(event["args"]) for event in self.seen("Runtime.consoleAPICalled")]
        thrown = self.seen("Runtime.exceptionThrown")
        return said + [str(event["exceptionDetails"]) for event in thrown]

    def emulate(self, *, theme: str = "light", media: str = "screen", width: int = 1200) -> None:
        """Theme, medium and width of the window."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.send("Emulation.setEmulatedMedia", media=media, features=[feature])
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(until - time.monotonic(), 0))
            part = os.read(self._in, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer, or has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))
