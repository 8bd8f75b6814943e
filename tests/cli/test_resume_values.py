"""What an operator says on resume is refused without being repeated where it may hold a password."""

import pytest

from maint.cli.resume_values import FIELDS, _value
from maint.errors import Invalid
from maint.steps.restore.deployment import ANSWER


@pytest.mark.parametrize("field", [*FIELDS, ANSWER])
def test_an_address_with_a_password_is_refused_and_the_password_is_not_printed(field):
    with pytest.raises(Invalid) as refused:
        _value(f"vc.one.{field}", field, "https://etl:s3cret-Word@abc.cde-x.apps.example.internal/dex/api/v1")
    words = " ".join([refused.value.message, *refused.value.detail, refused.value.hint or ""])
    assert f"--set vc.one.{field}" in words and "s3cret-Word" not in words
    assert ("no password" in words) is (field in ("base_url", "auth_url", "connect_to"))
