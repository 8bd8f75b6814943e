"""What an operator says on resume is refused without being repeated where it may hold a password."""

import pytest

from maint.cli.resume_values import _value
from maint.errors import Invalid


@pytest.mark.parametrize("field", ["base_url", "auth_url", "connect_to"])
def test_an_address_with_a_password_is_refused_and_the_password_is_not_printed(field):
    with pytest.raises(Invalid) as refused:
        _value(f"vc.one.{field}", field, "https://etl:s3cret-Word@abc.cde-x.apps.example.internal/dex/api/v1")
    words = " ".join([refused.value.message, *refused.value.detail, refused.value.hint or ""])
    assert "no password" in words and "s3cret-Word" not in words
