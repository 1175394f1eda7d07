"""TLS of clients, with the files that a user's options name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from rheos.core.errors import ConfigurationError

TLS_OPTIONS = ("tls_ca_file", "tls_cert_file", "tls_key_file")
"""Options that name files: certificates of authorities, and the client's certificate and key."""


def tls_context(options: Mapping[str, str], system: str, address: str) -> ssl.SSLContext:
    """Return the configuration of TLS for a client.

    Args:
        options: The user's options; those of `TLS_OPTIONS` are used.
        system: Name of the system, for errors: "NATS".
        address: Address of the server, for errors.

    Returns:
        The configuration. Servers need a certificate that it can verify.

    Raises:
        ConfigurationError: A file cannot be read.
    """
    try:
        tls = ssl.create_default_context(cafile=options.get("tls_ca_file"))
        if "tls_cert_file" in options:
            tls.load_cert_chain(options["tls_cert_file"], options.get("tls_key_file"))
    except OSError as error:
        raise ConfigurationError(
            f"the certificates for {system} at {address} cannot be read: {error}",
            hint="check the files that the options tls_... name, on every worker",
        ) from None
    return tls
