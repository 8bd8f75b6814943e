"""Fingerprints are HMAC-SHA256 under the site's key, cut short, and stay what they are."""

import hmac
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.secrets import Fingerprint, site_fingerprint
from maint.model.secret import Secret


@given(st.binary(max_size=100), st.text(max_size=80))
def test_a_fingerprint_is_the_beginning_of_the_hmac(key: bytes, value: str) -> None:
    whole = hmac.digest(key, value.encode(errors="surrogatepass"), "sha256").hex()
    assert Fingerprint(key)(value) == f"fp:{whole[:16]}"


def test_a_fingerprint_of_a_fingerprint_is_itself() -> None:
    made = Fingerprint(b"k")("hunter2")
    assert Fingerprint(b"other")(made) == made


def test_a_key_that_is_no_hex_is_taken_as_it_stands() -> None:
    asked: Any = SimpleNamespace(fingerprint_key=Secret("a key of my own\n"))
    assert site_fingerprint(asked)("hunter2") == Fingerprint(b"a key of my own")("hunter2")
