"""Certificates and keys of one instance: made anew with it, valid for ten years, readable by the owner only."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_Form = serialization.PrivateFormat
_VALID = datetime.timedelta(days=3650)


@dataclass(frozen=True)
class Pair:
    """A certificate with its private key, PEM files on disk."""

    certificate: Path
    """PEM file of the certificate."""
    key: Path
    """PEM file of the private key, mode 0600."""


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs for one instance."""

    directory: Path
    """Where signed certificates are written."""
    pair: Pair
    """The authority's own certificate and key."""

    @classmethod
    def create(cls, directory: Path, name: str, *, key: _Key | None = None) -> "Authority":
        """Make an authority with files `<name>.crt` and `<name>.key`; its key is a new one unless given."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, None)
        certificate = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(directory, _write(directory, name, certificate, key))

    def server(self, name: str, *hosts: str) -> Pair:
        """A server certificate for loopback and the given host names or addresses."""
        names = [_general_name(host) for host in ("localhost", "127.0.0.1", *hosts)]
        return self._sign(name, _subject(name, None), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, name: str, user: str, group: str) -> Pair:
        """A client certificate for a Kubernetes user in one group."""
        return self._sign(name, _subject(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _sign(self, name: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]) -> Pair:
        issuer = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        issuer_key = serialization.load_pem_private_key(self.pair.key.read_bytes(), None)
        assert isinstance(issuer_key, _Key)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, issuer.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _write(self.directory, name, builder.sign(issuer_key, hashes.SHA256()), key)


def signing_key(path: Path) -> Path:
    """A key for service-account tokens, in the traditional PEM form, the only one kube-apiserver reads."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _write_private(path, key, _Form.TraditionalOpenSSL)


def rsa_key() -> rsa.RSAPrivateKey:
    """A new RSA key, for programs that know no other kind."""
    return rsa.generate_private_key(65537, 2048)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
    )


def _subject(common: str, organization: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(directory: Path, name: str, certificate: x509.Certificate, key: _Key) -> Pair:
    path = directory / f"{name}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = _Form.TraditionalOpenSSL if isinstance(key, rsa.RSAPrivateKey) else _Form.PKCS8
    return Pair(path, _write_private(directory / f"{name}.key", key, form))


def _write_private(path: Path, key: _Key, form: _Form) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return path
