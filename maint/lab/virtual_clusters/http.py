"""HTTPS on loopback for all names of a service: the gateway's, the virtual clusters', the control plane's."""

import ssl
from typing import Any, Protocol

from msgspec.structs import replace

from maint.lab.http import server as http_server
from maint.lab.http.form import BadForm, form_part
from maint.lab.http.messages import Response
from maint.lab.http.request_log import RequestLog
from maint.lab.http.server import Listener
from maint.lab.virtual_clusters.api.answer import Admitted, admit, handle, throttled
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.gateway import Gateway
from maint.lab.virtual_clusters.messages import ApiError, Request, html, printed

_MOST_JSON = 1 << 24


class Names(Protocol):
    """What a listener asks of the service behind it."""

    gateway: Gateway
    log: RequestLog

    def by_host(self, host: str) -> Cluster | None:
        """Return the virtual cluster that answers to a host's name."""

    def is_gateway(self, host: str) -> bool:
        """Return whether gateway or control plane answer to a host's name."""

    def context(self) -> ssl.SSLContext:
        """Return what the next client gets to see."""

    def too_often(self, cluster: Cluster) -> bool:
        """Return whether a request comes too soon after the others."""


class Port(Listener):
    """The one port of a service."""

    def __init__(self, names: Names, port: int) -> None:
        self.names = names
        super().__init__(port, Exchange, names.context, names.log)


class Exchange(http_server.Exchange):
    """One connection, request after request."""

    server: Port
    server_name = "istio-envoy"

    def respond(self) -> Response:
        head = self.head()
        try:
            return self._answer(Request(head.method, head.path, head.query, head.headers))
        except BadForm as error:
            return ApiError(400, str(error)).response

    def refused(self, status: int, message: str) -> Response:
        return ApiError(status, message).response

    def dumps(self, value: Any) -> bytes:  # Any: what JSON can spell
        return printed(value)

    def _answer(self, request: Request) -> Response:
        names, host = self.server.names, request.headers.get("host", "").rsplit(":", 1)[0].lower()
        if names.is_gateway(host):
            return names.gateway.answer(replace(request, content=self._whole()))
        cluster = names.by_host(host)
        if cluster is None:
            return Response(404, text=b"default backend - 404", content_type="text/plain")
        if names.too_often(cluster):
            return throttled(cluster)
        admitted = admit(cluster, names.gateway, request)
        if isinstance(admitted, Response):
            return admitted
        return self._within(cluster, admitted)

    def _within(self, cluster: Cluster, admitted: Admitted) -> Response:
        limit = int(cluster.switches.number("vc-upload-max-bytes"))
        if limit and self.length > limit:
            self.close_connection = True
            return html(413, "413 Request Entity Too Large")
        if admitted.uploads:
            kind = admitted.request.headers.get("content-type", "")
            staged = cluster.files.stage(form_part(self.received(), kind))
            request = replace(admitted.request, upload=staged)
        else:
            request = replace(admitted.request, content=self._whole())
        return handle(cluster, Admitted(request, admitted.handler, admitted.uploads))

    def _whole(self) -> bytes:
        found = b""
        for piece in self.received():
            found += piece
            if len(found) > _MOST_JSON:
                self.close_connection = True
                raise BadForm("the body is too large")
        return found
