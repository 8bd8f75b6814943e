"""An S3 on loopback by moto, which answers one request after the other: two at once would both find a name free."""

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port

_LONG = 200.0  # seconds; no more than an end for what never comes


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """Start it as a process of its own, with a bucket; yield its endpoint. RuntimeError where it does not come up."""
    port = free_port()
    words = [sys.executable, "-m", "tests.s3_server", str(port)]
    null = subprocess.DEVNULL
    process = subprocess.Popen(words, stdout=null, stderr=null, cwd=Path(__file__).parent.parent)
    try:
        limit = time.monotonic() + _LONG
        while True:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT")
                urllib.request.urlopen(request, timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError("moto does not answer") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import run_simple

    moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with turn:  # moto looks whether a name is free, and only then takes it
            return list(moto(environ, start_response))

    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
