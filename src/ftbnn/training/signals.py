"""SIGINT and SIGTERM as a wish: the step under way ends, the run is saved, then it stops."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, ClassVar


class StopSignals:
    """Catches the two signals while it is entered. A second one stops at once, as without it.

    Inside another it is told what that one is told: a run that is done when the signal comes has nothing to stop, but
    the queue around it has.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)
    _innermost: ClassVar["StopSignals | None"] = None

    def __init__(self) -> None:
        self.received = 0
        self._outer: StopSignals | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._outer, StopSignals._innermost = StopSignals._innermost, self
        if self._outer is not None:
            self.received = self._outer.received
        else:
            self._previous = {number: signal.signal(number, self._receive) for number in self.SIGNALS}
        return self

    def _receive(self, number: int, _: FrameType | None) -> None:
        one = StopSignals._innermost
        while one is not None:
            one.received, one = number, one._outer
        signal.signal(number, self._previous[number])

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if StopSignals._innermost is self:
            StopSignals._innermost = self._outer
        for number, handler in self._previous.items():
            signal.signal(number, handler)
