"""SIGINT and SIGTERM as a wish: the step under way ends, the run is saved, then it stops."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """Catches the two signals while it is entered. A second one stops at once, as without it."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = number
        signal.signal(number, self._previous[number])

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
