# SPDX-License-Identifier: Apache-2.0
"""A certificate authority for one test run."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates with a key that only this object knows; its files are written below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of one test run")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(*(name in ("key_cert_sign", "crl_sign") for name in _USAGES))
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(constraints, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = folder / "ca.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, host: str, *, asks_clients: bool = False) -> ssl.SSLContext:
        """Return the context of a trusted server named ``host``, an address or a name.

        :param asks_clients: reject clients without a certificate of this authority.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server_files(host))
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path)
        return context

    def client_files(self) -> tuple[Path, Path]:
        """Return the files of a client's certificate and of its key."""
        return self.server_files("client.example")

    def server_files(
        self,
        host: str,
        *,
        expired: bool = False,
        is_strict: bool = True,
        hours: int = 0,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> tuple[Path, Path]:
        """Return the files of a certificate for ``host``, an address or a name, and of its key.

        :param expired: whether the certificate has expired.
        :param is_strict: whether the certificate names the key of its issuer, as Python 3.13 requires.
        :param hours: hours until the certificate becomes valid.
        :param key: the key; by default a new one.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = self._builder(x509.Name([]), key, expired=expired, hours=hours)
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=True)
        if is_strict:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(issuer, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        files = self._folder / f"{host}.pem", self._folder / f"{host}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        files[1].write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        return files

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
        *,
        expired: bool = False,
        hours: int = 0,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=-3 if expired else hours)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )


_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
