"""Keytabs that MIT's own tools have written, read by ours."""

import struct

import pytest

from maint.model.keytab import BadKeytab, newest_usable, parse
from tests.steps.kerberos.conftest import PRINCIPAL


@pytest.fixture(scope="module")
def three(kdc):
    """A keytab with three key versions, one of them above what the old field holds."""
    return kdc.ktutil(PRINCIPAL, [(2, "aes256-cts"), (3, "aes128-cts"), (300, "aes256-cts")])


def test_what_klist_shows_is_what_we_read(kdc, three):
    for content in (kdc.keytab(PRINCIPAL), three):
        assert [(key.version, key.principal) for key in parse(content)] == kdc.told(content)


def test_the_newest_usable_key_counts(three):
    key = newest_usable(parse(three), PRINCIPAL)
    assert (key.version, key.kind, key.usable) == (300, "aes256-cts", True)
    assert repr(key.content) not in repr(key)


def test_a_gap_that_a_removed_key_left_is_passed_over(kdc, three):
    path = kdc.folder / "gap.keytab"
    path.write_bytes(three)
    kdc.admin("ktremove", "-k", str(path), PRINCIPAL, "3")
    content = path.read_bytes()
    assert len(content) == len(three), "kadmin did not leave a gap"
    assert [key.version for key in parse(content)] == [2, 300]


def test_the_first_version_of_the_format_is_read_as_mit_reads_it(kdc):
    def counted(text):
        return struct.pack("=H", len(text)) + text

    record = struct.pack("=H", 2) + counted(b"EXAMPLE.COM") + counted(b"etl_user")
    record += struct.pack("=IBH", 1, 7, 18) + counted(b"k" * 32)
    content = b"\x05\x01" + struct.pack("=i", len(record)) + record
    assert [(key.version, key.principal) for key in parse(content)] == kdc.told(content) == [(7, PRINCIPAL)]
    other = struct.pack(">HH", 2, 1) + b"R" + struct.pack(">H", 1) + b"u" + struct.pack(">IBHH", 1, 1, 17, 16)
    swapped = b"\x05\x01" + struct.pack(">i", len(other) + 16) + other + b"k" * 16
    assert parse(swapped)[0].principal == "u@R", "a machine of the other byte order has written it"


def test_a_keytab_cut_anywhere_is_refused_or_holds_fewer_whole_keys(three):
    whole = parse(three)
    fewer = 0
    for size in range(len(three)):
        try:
            found = parse(three[:size])
        except BadKeytab:
            continue
        assert found == whole[: len(found)]
        fewer += 1
    assert fewer == len(whole), "only a cut between two keys leaves a keytab"


@pytest.mark.parametrize("content", [b"", b"\x05", b"keytab", b"\x05\x03abc", b"\x05\x02\0\0\0\x7fabc"])
def test_what_is_no_keytab_is_refused(content):
    with pytest.raises(BadKeytab):
        parse(content)


def test_keys_of_another_principal_or_of_old_types_alone_are_refused(kdc):
    with pytest.raises(BadKeytab, match=r"no key of other@EXAMPLE\.COM, but of etl_user"):
        newest_usable(parse(kdc.keytab(PRINCIPAL)), "other@EXAMPLE.COM")
    mixed = kdc.ktutil(PRINCIPAL, [(2, "aes256-cts"), (3, "arcfour-hmac")])
    with pytest.raises(BadKeytab, match=r"version 3\) are only arcfour"):
        newest_usable(parse(mixed), PRINCIPAL)
