"""Files that the operator names for the lab."""

import pytest

from maint.cli.lab.options import deployment_file
from maint.errors import Invalid


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "is not JSON"),
        ("[]", "not an export"),
        ("{}", "not an export"),
        ('{"versionInfo": {"version": "7"}}', "not an export"),
    ],
)
def test_a_file_that_is_no_export_is_told_before_a_lab_is_made_of_it(tmp_path, text, words):
    path = tmp_path / "export.json"
    path.write_text(text)
    with pytest.raises(Invalid, match=words):
        deployment_file(str(path))


def test_an_export_is_taken_as_it_is(tmp_path):
    path = tmp_path / "export.json"
    path.write_text('{"versionInfo": {"version": "7.6.5"}, "users": []}')
    assert deployment_file(str(path)) == path
