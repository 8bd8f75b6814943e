"""Bech32 text (BIP 173), the spelling of age keys."""

_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def encode(prefix: str, data: bytes) -> str:
    """Return `<prefix>1<data><checksum>` in lower case."""
    words = _five_bits(data)
    checked = _spread(prefix) + words
    remainder = _polymod([*checked, 0, 0, 0, 0, 0, 0]) ^ 1
    words += [(remainder >> 5 * (5 - place)) & 31 for place in range(6)]
    return f"{prefix}1" + "".join(_ALPHABET[word] for word in words)


def _five_bits(data: bytes) -> list[int]:
    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 5)
    return [int(bits[start : start + 5], 2) for start in range(0, len(bits), 5)]


def _spread(prefix: str) -> list[int]:
    return [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]


def _polymod(words: list[int]) -> int:
    remainder = 1
    for word in words:
        top = remainder >> 25
        remainder = (remainder & 0x1FFFFFF) << 5 ^ word
        for place in range(5):
            remainder ^= _GENERATOR[place] if top >> place & 1 else 0
    return remainder
