"""Server-sent events, incrementally: bytes in as they were read, whole payloads out.

A payload is the `data` of one event, its lines joined by LF. Events without a payload (comments, `retry:`, `id:`, empty `data:`)
are left out: clients fail on them. Line ends may be LF, CRLF or CR, cut anywhere. What a payload means is decided elsewhere.
The cost is linear in the bytes, however small the pieces. Pure.
"""

MOST_EVENT_BYTES = 4 * 1024 * 1024

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Framer:
    """Finds the events of one stream. `overflowed` turns True when an event passes the cap; nothing more comes out then."""

    def __init__(self, most_event_bytes: int = MOST_EVENT_BYTES) -> None:
        self.overflowed = False
        self._most = most_event_bytes
        self._pending = bytearray()
        self._searched = 0
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the payloads of the events that `piece` completes."""
        if self._after_cr or b"\r" in piece:
            piece = self._unify(piece)
        if not self._begun:
            piece = self._beginning(piece)
        pending = self._pending
        if not pending and piece.endswith(b"\n\n"):
            last = len(piece) - 2
            if piece.startswith(b"data: {") and piece.find(b"\n") == last <= self._most:
                # One event of one line, which is what most reads hold.
                return [] if self.overflowed else [piece[6:last]]
            return self._payloads(piece[:last])
        pending += piece
        end = pending.rfind(b"\n\n", self._searched)
        payloads: list[bytes] = []
        if end >= 0:
            # To slice the buffer itself would be one copy more, for which a large event paid two thirds more by the byte.
            with memoryview(pending) as seen:
                blocks = bytes(seen[:end])
            del pending[: end + 2]
            payloads = self._payloads(blocks)
        # The last byte may be the first half of an end.
        self._searched = max(0, len(pending) - 1)
        self.overflowed = self.overflowed or self._too_long(pending)
        return payloads

    def end(self) -> list[bytes]:
        """Return the payload of an event that the end of the stream cut off behind its last line, if any."""
        rest = bytes(self._pending).removesuffix(b"\n")
        self._pending.clear()
        return self._payloads(rest)

    def _beginning(self, piece: bytes) -> bytes:
        """Return the first bytes of the stream without their mark, nothing while they may yet become one."""
        first = bytes(self._pending) + piece
        self._pending.clear()
        self._begun = len(first) >= len(BYTE_ORDER_MARK) or not BYTE_ORDER_MARK.startswith(first)
        if self._begun:
            return first.removeprefix(BYTE_ORDER_MARK)
        self._pending += first
        return b""

    def _unify(self, piece: bytes) -> bytes:
        """Turn every line end into LF; a CR that ends one piece and an LF that begins the next are one line end."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if piece.endswith(b"\r"):
            self._after_cr = True
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _payloads(self, blocks: bytes) -> list[bytes]:
        found: list[bytes] = []
        for block in blocks.split(b"\n\n"):
            self.overflowed = self.overflowed or self._too_long(block)
            if self.overflowed:
                break
            payload = _payload(block)
            if payload and not payload.isspace():
                found.append(payload)
        return found

    def _too_long(self, block: bytes | bytearray) -> bool:
        # Where reads are cut decides whether one more line end stands round a block; it must not decide what is too long.
        return len(block) > self._most and len(block.strip(b"\n")) > self._most


def _payload(block: bytes) -> bytes:
    if block.startswith(b"data:") and b"\n" not in block:
        return block[6:] if block.startswith(b" ", 5) else block[5:]
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
