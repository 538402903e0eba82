"""The one field of an X.509 certificate that is read here: when it ends, to explain a 401."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_CONTEXT_0 = 0xA0
_FORMS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


def not_after(pem: str) -> datetime:
    """The end of validity of the first certificate in a PEM text; ValueError when there is none to read."""
    start, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find("-----END CERTIFICATE-----")
    if start < 0 or end < 0:
        raise ValueError("no certificate in PEM form")
    der = ssl.PEM_cert_to_DER_cert(pem[start : end + len("-----END CERTIFICATE-----")])
    try:
        (_, certificate), *_ = _elements(der)
        (_, to_be_signed), *_ = _elements(certificate)
        _, _, _, validity, *_ = [value for tag, value in _elements(to_be_signed) if tag != _CONTEXT_0]
        _, (tag, end_of_validity) = _elements(validity)
        return datetime.strptime(end_of_validity.decode(), _FORMS[tag]).replace(tzinfo=UTC)
    except (KeyError, UnicodeDecodeError) as error:
        raise ValueError("a certificate of an unknown shape") from error


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + 2 <= len(data):
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        yield tag, data[position : position + length]
        position += length
