"""Fingerprints are HMAC-SHA256 under the site's key, cut short, and stay what they are."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.fingerprint import Fingerprint


@given(st.binary(max_size=100), st.text(max_size=80))
def test_a_fingerprint_is_the_beginning_of_the_hmac(key: bytes, value: str) -> None:
    whole = hmac.digest(key, value.encode(errors="surrogatepass"), "sha256").hex()
    assert Fingerprint(key)(value) == f"fp:{whole[:16]}"


def test_a_fingerprint_of_a_fingerprint_is_itself() -> None:
    made = Fingerprint(b"k")("hunter2")
    assert Fingerprint(b"other")(made) == made
