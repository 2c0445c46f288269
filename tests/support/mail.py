# SPDX-License-Identifier: Apache-2.0
"""A mail server, and the Airflow connection to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from local_airflow import free_port


@dataclass
class Inbox:
    """A mailbox.

    :param connection: Airflow connection of type SMTP, as JSON.
    :param received: the messages, oldest first.
    """

    connection: str
    received: list[EmailMessage] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.received.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"

    def only_mail(self) -> tuple[EmailMessage, str]:
        """Return the only message and its HTML."""
        [mail] = self.received
        part = mail.get_body(("html",))
        assert part is not None
        return mail, part.get_content()


@contextmanager
def mail_server() -> Iterator[Inbox]:
    """Run a mail server on this machine."""
    port = free_port()
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"}
    inbox = Inbox(json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}))
    controller = Controller(inbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield inbox
    finally:
        controller.stop()
