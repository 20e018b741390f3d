"""Damage to array files that is found only behind their first bytes."""


def inflated(path):
    """Compressed data of an .npz file that are none."""
    raw = bytearray(path.read_bytes())
    # A local header has 30 bytes and two names of stated length before the data.
    start = 30 + int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")
    raw[start] = 0xFF
    path.write_bytes(raw)


def encrypted(path):
    """An .npz file whose directory says that its first array is encrypted."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)


def unclosed(path):
    """The header of an .npy file with a bracket that nothing closes."""
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"), }", b"(, }", 1))
