//! HTTPS for clients that require it, with a certificate for the loopback names that is made at the
//! start. Clients have to trust its authority. Without `rustls-ring` and `rustls-aws-lc` the server has plain
//! HTTP only.

use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;

use super::admission::TimedStream;

/// The security of connections.
#[derive(Debug)]
pub(crate) enum Security {
    Plain,
    #[cfg(feature = "__tls")]
    Tls(Tls),
}

/// A stream that hyper can serve.
pub(crate) trait Connection: Read + Write + Send + Unpin {}

impl<C: Read + Write + Send + Unpin> Connection for C {}

impl Security {
    /// Returns `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "http",
            #[cfg(feature = "__tls")]
            Self::Tls(_) => "https",
        }
    }

    /// Performs the TLS handshake; a plain connection has none.
    #[cfg_attr(
        not(feature = "__tls"),
        expect(clippy::unused_async, reason = "only the TLS handshake waits")
    )]
    pub(crate) async fn accept(&self, stream: TimedStream) -> std::io::Result<Box<dyn Connection>> {
        match self {
            Self::Plain => Ok(Box::new(TokioIo::new(stream))),
            #[cfg(feature = "__tls")]
            Self::Tls(tls) => {
                let handshake = tokio::time::timeout(HANDSHAKE, tls.acceptor.accept(stream));
                Ok(Box::new(TokioIo::new(handshake.await??)))
            }
        }
    }
}

/// Maximum time of a handshake.
#[cfg(feature = "__tls")]
const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(feature = "__tls")]
pub(crate) use certificate::Tls;

#[cfg(feature = "__tls")]
mod certificate {
    //! A certificate authority that signs one certificate; its key is then discarded.

    use std::fmt;
    use std::sync::Arc;

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, KeyUsagePurpose,
    };
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    #[cfg(feature = "rustls-aws-lc")]
    use tokio_rustls::rustls::crypto::aws_lc_rs as cryptography;
    #[cfg(not(feature = "rustls-aws-lc"))]
    use tokio_rustls::rustls::crypto::ring as cryptography;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    /// The certificate of the server.
    pub(crate) struct Tls {
        pub(super) acceptor: TlsAcceptor,
        /// The authority that clients have to trust.
        pub(crate) authority_pem: String,
    }

    impl fmt::Debug for Tls {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Tls").finish_non_exhaustive()
        }
    }

    type Error = Box<dyn std::error::Error + Send + Sync>;

    impl Tls {
        /// Generates an authority and a certificate for `localhost` and the loopback addresses.
        pub(crate) fn generate() -> Result<Self, Error> {
            // Some clients reject a self-signed server certificate, so an authority signs it.
            let mut authority = CertificateParams::new(Vec::new())?;
            authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let name = &mut authority.distinguished_name;
            name.push(DnType::CommonName, "cdb-emulator, made at its start");
            let authority_key = KeyPair::generate()?;
            let authority_pem = authority.self_signed(&authority_key)?.pem();

            let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            let mut server = CertificateParams::new(names)?;
            let name = &mut server.distinguished_name;
            name.push(DnType::CommonName, "localhost");
            server.use_authority_key_identifier_extension = true;
            server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let server_key = KeyPair::generate()?;
            let issuer = Issuer::new(authority, authority_key);
            let certificate = server.signed_by(&server_key, &issuer)?;

            let mut config =
                ServerConfig::builder_with_provider(Arc::new(cryptography::default_provider()))
                    .with_safe_default_protocol_versions()?
                    .with_no_client_auth()
                    .with_single_cert(
                        vec![certificate.der().clone()],
                        PrivateKeyDer::try_from(server_key.serialize_der())?,
                    )?;
            config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).to_vec();
            Ok(Self {
                acceptor: TlsAcceptor::from(Arc::new(config)),
                authority_pem,
            })
        }
    }
}
