"""Read a document as a part of the configuration: quickly where it is right, else with words about what is wrong."""

from contextlib import suppress

from maint.config.document import Document
from maint.config.models import Doubt, M


def read(model: type[M], document: Document) -> M:
    """Read a document.

    Raises:
        Invalid: one error at the first wrong place; further ones are detail lines with places of their own.
    """
    with suppress(Doubt, ValueError, TypeError):
        return model.of(document.data)
    from maint.config.mirror import read_with_words

    return read_with_words(model, document)
