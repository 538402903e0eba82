"""Certificates for tests: an authority that issues what a test needs, right or wrong."""

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates with a key of its own."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self._certificate = self._sign(self._name, self._key.public_key(), -1, 1, ca=True, address=None)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *, begins: int = -1, ends: int = 1, address: str | None = None) -> Pair:
        """A pair valid from `begins` to `ends`, in days from now, for a client or the server at an IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = self._sign(name, key.public_key(), begins, ends, ca=False, address=address)
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _sign(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, begins: int, ends: int, *, ca: bool, address: str | None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=begins))
            .not_valid_after(now + datetime.timedelta(days=ends))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())
