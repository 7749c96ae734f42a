"""Peak memory of this process, measured per input."""

from __future__ import annotations

from pathlib import Path

MOST = 1 << 30  # bytes that one input may take
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Bytes of resident memory that a block takes at most, beyond what was taken before it.

    Where the system is not Linux they are zero.

    >>> with Peak() as peak:
    ...     filled = bytearray(100 << 20)
    >>> peak.bytes == 0 or 99 << 20 < peak.bytes < 120 << 20
    True
    """

    def __enter__(self) -> Peak:
        self.bytes = 0
        try:
            _RESET.write_bytes(b"5")  # the peak is what is taken now
        except OSError:
            self.before = None
        else:
            self.before = _kilobytes(b"VmRSS:")
        return self

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            self.bytes = max(_kilobytes(b"VmHWM:") - self.before, 0) << 10


def _kilobytes(name: bytes) -> int:
    text = _STATUS.read_bytes()
    start = text.index(name) + len(name)
    return int(text[start : text.index(b"k", start)])
