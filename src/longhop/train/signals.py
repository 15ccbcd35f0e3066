"""SIGINT and SIGTERM: finish the step, save, leave."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class StoppedError(Exception):
    """A signal ended the run after its state was saved.

    Attributes:
        signum: the signal; a shell expects exit code 128 + signum.
    """

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.signum = signum


@contextlib.contextmanager
def caught() -> Iterator[Callable[[], int | None]]:
    """Note SIGINT and SIGTERM inside the with-block; yields a function that gives the signal or None.

    A second signal acts as if nothing had been installed: it ends the process at once. Outside the main
    thread, where Python allows no handlers, nothing is caught.
    """
    received: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def note(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        for number, handler in before.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
