"""What lies at the root of a failed exchange, and how to say it."""

import socket
import ssl
from collections.abc import Iterator

import requests
import urllib3

from maint.model.formatting import show_duration


def words_for(root: BaseException, seconds: float) -> str:
    """Return in words what the root of a failure means; `seconds` is how long was waited."""
    if isinstance(root, ConnectionRefusedError):
        return "refused"
    if isinstance(root, socket.gaierror):
        return "the host name is not known"
    if isinstance(root, TimeoutError):
        return f"no answer in {show_duration(seconds)}"
    if isinstance(root, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return "closed the connection without an answer"
    if isinstance(root, ssl.SSLError):
        return f"does not speak TLS as we do ({root.reason or 'no reason given'})"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror.lower()
    return "closed the connection or answered something that is not HTTP"


def root_of(error: BaseException) -> BaseException:
    """Return what the operating system or OpenSSL said, below all that was wrapped around it."""
    deepest = error
    for found in chain(error, set()):
        if isinstance(found, OSError) and not isinstance(found, requests.RequestException):
            return found
        if isinstance(found, urllib3.exceptions.TimeoutError):
            deepest = TimeoutError()
    return deepest


def chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yield an error and all that it is wrapped around; `seen` holds the ids of those already met."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    inner = (*error.args, getattr(error, "reason", None), error.__cause__, error.__context__)
    for candidate in inner:
        if isinstance(candidate, BaseException):
            yield from chain(candidate, seen)
