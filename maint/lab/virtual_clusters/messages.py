"""Requests, responses and errors of the gateway and the jobs API."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from maint.lab.http import messages
from maint.lab.http.messages import Response
from maint.lab.manager.document import Doc, rebuilt, spelled
from maint.lab.virtual_clusters.store import Staged


class Request(messages.Request, frozen=True):
    """A request to a virtual cluster."""

    user: str = ""  # "" before that is known
    sees: bool = True  # whether the user has a role
    upload: Staged | None = None  # the file of a multipart body, in the place of `content`

    def document(self) -> Any:  # Any: what JSON can spell
        """Return the body as JSON, an empty object where there is no body; ApiError where it is not JSON."""
        if not self.content.strip():
            return {}
        try:
            return spelled(self.content)
        except ValueError as error:
            raise ApiError(400, f"invalid character in body: {error}") from error


class ApiError(messages.ApiError):
    """An answer that is an error (J3.5)."""

    fixed: ClassVar[Mapping[str, str]] = {"status": "error"}


def printed(value: Any) -> bytes:  # Any: what JSON can spell
    """Return a value as the API prints it."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def html(status: int, title: str) -> Response:
    """Return a page as a proxy writes it."""
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    return Response(
        status, text=f"{page}<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n".encode(), content_type="text/html"
    )


# Printed although it is false.
_PRINTED = {"enabled"}


def without_empty(value: Mapping[str, Any]) -> Doc:  # Any: what JSON can spell
    """Return an object without what is empty, objects within objects too."""
    found: Doc = rebuilt(value, lambda node: {k: v for k, v in node.items() if k in _PRINTED or not _empty(v)})
    return found


def _empty(value: Any) -> bool:  # Any: what JSON can spell
    return value is None or value is False or value in ("", [], {})
