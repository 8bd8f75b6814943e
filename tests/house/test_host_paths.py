"""Where the vendor's software keeps its files is declared once."""

import re
from pathlib import Path

from maint.model import manager

PRODUCT = Path(manager.__file__).parent.parent


def test_no_other_module_declares_a_path_of_the_vendors_anew() -> None:
    known = "|".join(re.escape(value) for name, value in vars(manager).items() if name.isupper())
    declared = re.compile(rf'^_?[A-Z]+ = "(?:{known})[/"]', re.MULTILINE)
    modules = [one for one in PRODUCT.rglob("*.py") if "lab" not in one.relative_to(PRODUCT).parts]  # which shares none
    found = [str(one) for one in modules if declared.search(one.read_text())]
    assert found == [str(Path(manager.__file__))], "take it from `maint.model.manager`"
