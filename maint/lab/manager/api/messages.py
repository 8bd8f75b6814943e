"""What goes into the API and what comes out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maint.lab.manager import jackson
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was let in.

    Attributes:
        method: GET, POST, PUT or DELETE.
        call: method and path, for faults.
        api: N of `/api/vN`; 0 outside.
        parts: values of the path's placeholders.
        query: the query; the last value of each name.
        headers: header values by lower-case name.
        user: the account.
        body: the file that holds the whole body, None where there is none.
        host: the name and port by which the client came.
    """

    method: str
    call: str
    api: int
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    user: Doc
    body: Path | None = None
    host: str = "localhost:7180"

    def flag(self, name: str) -> bool:
        """Return a boolean of the query; any case counts (contract section 2.3)."""
        return self.query.get(name, "").lower() == "true"

    def content(self) -> bytes:
        """Return the whole body."""
        return self.body.read_bytes() if self.body else b""


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back.

    Attributes:
        value: what is printed as JSON, unless `text` is given.
        text: the bare body.
        whole: whether nulls within the value are printed too, as an export does where it has some (recordings).
        seconds: how long the server takes before its first byte.
    """

    status: int = 200
    value: Any = None  # Any: whatever JSON can spell
    text: bytes | None = None
    content_type: str = JSON
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    seconds: float = 0.0

    def spelled(self) -> "Response":
        """Return the same with its value printed, so that later changes of the world do not reach it."""
        return self if self.value is None else replace(self, text=self.body(), value=None)

    def body(self) -> bytes:
        """Return the bytes of the body."""
        if self.text is not None:
            return self.text
        if self.value is None:
            return b""
        return jackson.dumps(self.value if self.whole else jackson.without_nulls(self.value)).encode()


class ApiError(Exception):
    """An answer that is an `ApiErrorMessage` (contract section 2.4)."""

    def __init__(self, status: int, message: str, causes: list[str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.causes = status, message, causes

    def response(self) -> Response:
        """Return the answer."""
        return Response(self.status, {"message": self.message, "causes": self.causes})


Handler = Callable[[World, Request], Response]


def plain(text: str, content_type: str = "text/plain") -> Response:
    """Return a bare text."""
    return Response(text=text.encode(), content_type=content_type)


def listing(entries: list[Doc]) -> Response:
    """Return `{"items" : [...]}`."""
    return Response(value={"items": entries})


def html(status: int, title: str, reason: str | None = None) -> Response:
    """Return an error page as a web server writes it."""
    page = f"<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n<h2>{title}</h2>\n</body>\n</html>\n"
    return Response(status, text=page.encode(), content_type="text/html;charset=ISO-8859-1", reason=reason)
