"""How far a run is: a bar with rate and time left on a terminal, plain lines elsewhere."""

import sys
import time
from datetime import timedelta

from tqdm import tqdm

from ftbnn.text import line

PLAIN_EVERY_S = 30.0


class Progress:
    """Counts images (or another `unit`) towards a total, on standard error. `quiet` says nothing."""

    def __init__(self, total: int, done: int = 0, *, quiet: bool = False, unit: str = "img") -> None:
        self.total, self.done, self.quiet, self.unit = total, done, quiet, unit
        self.started, self.first, self.spoke = time.monotonic(), done, time.monotonic()
        self.bar: tqdm[None] | None = None
        if not quiet and sys.stderr.isatty():
            self.bar = tqdm(total=total, initial=done, unit=unit, unit_scale=True, dynamic_ncols=True, smoothing=0.05)

    def advance(self, images: int, state: str) -> None:
        self.done += images
        if self.bar is not None:
            self.bar.set_description_str(state, refresh=False)
            self.bar.update(images)
        elif not self.quiet and time.monotonic() - self.spoke > PLAIN_EVERY_S:
            self.spoke = time.monotonic()
            rate = (self.done - self.first) / (self.spoke - self.started)
            left = timedelta(seconds=round((self.total - self.done) / rate)) if rate else "unknown time"
            self.say(f"{state}  {rate:.{0 if rate >= 10 else 3}f} {self.unit}/s, {left} left")

    def say(self, text: str) -> None:
        """A line that stays, whatever a path in it holds."""
        text = line(text, 2000)
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
