//! TLS, with the implementation that the features of this crate choose.
//!
//! Several can be enabled, because Cargo unites the features that the crates of a program ask for. The
//! order is `native-tls`, `rustls-aws-lc`, `rustls-ring`, so that the default loses against a choice.

use crate::error::{Error, Result};

/// How the server proves its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerProof {
    /// Plain HTTP, for emulators.
    None,
    /// A certificate that the system trusts.
    TrustedCertificate,
    /// Any certificate. The configuration allows it for loopback hosts only.
    AnyCertificate,
}

#[cfg(all(feature = "fips", feature = "native-tls"))]
compile_error!("`native-tls` would take TLS out of the module of `fips`; enable one of them");

/// Whether the client can speak HTTPS.
const IS_AVAILABLE: bool = cfg!(any(
    feature = "native-tls",
    feature = "rustls-aws-lc",
    feature = "rustls-ring"
));

/// Configures the connections of an HTTP client.
///
/// # Errors
/// When TLS is needed and missing, or the system has no usable trust store.
pub(crate) fn configure(
    client: reqwest::ClientBuilder,
    proof: ServerProof,
) -> Result<reqwest::ClientBuilder> {
    if !IS_AVAILABLE && proof != ServerProof::None {
        return Err(Error::configuration(
            "this program was built without TLS; enable the feature `rustls-ring`, `rustls-aws-lc` or `native-tls`",
        ));
    }
    implementation::configure(client, proof)
}

/// Whether the server's certificate caused an error.
pub(crate) fn is_untrusted(error: &reqwest::Error) -> bool {
    let mut reason: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = reason {
        // `source` of an I/O error skips the error that it wraps.
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(|io| io.get_ref());
        let is_untrusted = match wrapped {
            Some(wrapped) => implementation::is_untrusted(wrapped),
            None => implementation::is_untrusted(error),
        };
        if let Some(is_untrusted) = is_untrusted {
            return is_untrusted;
        }
        reason = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    false
}

#[cfg(feature = "native-tls")]
mod implementation {
    //! The TLS of the system: SChannel, Secure Transport, OpenSSL.

    use std::error::Error as StdError;

    use super::{Result, ServerProof};

    pub(super) fn configure(
        client: reqwest::ClientBuilder,
        proof: ServerProof,
    ) -> Result<reqwest::ClientBuilder> {
        let any = proof == ServerProof::AnyCertificate;
        Ok(client
            .tls_backend_native()
            .tls_danger_accept_invalid_certs(any))
    }

    /// The systems have no common error for certificates, so only the text tells.
    pub(super) fn is_untrusted(error: &(dyn StdError + 'static)) -> Option<bool> {
        let tls = error.downcast_ref::<native_tls::Error>()?;
        Some(tls.to_string().to_ascii_lowercase().contains("certificate"))
    }
}

#[cfg(all(
    not(feature = "native-tls"),
    any(feature = "rustls-aws-lc", feature = "rustls-ring")
))]
mod implementation {
    use std::error::Error as StdError;
    use std::sync::Arc;

    use rustls::crypto::CryptoProvider;
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt as _;

    use super::{Error, Result, ServerProof};
    use crate::transport::loopback_certificate::AnyCertificate;

    pub(super) fn configure(
        client: reqwest::ClientBuilder,
        proof: ServerProof,
    ) -> Result<reqwest::ClientBuilder> {
        Ok(client.tls_backend_preconfigured(rustls(proof)?))
    }

    /// The program's default provider is not used: another library may have installed it.
    fn cryptography() -> CryptoProvider {
        #[cfg(feature = "rustls-aws-lc")]
        return rustls::crypto::aws_lc_rs::default_provider();
        #[cfg(not(feature = "rustls-aws-lc"))]
        return rustls::crypto::ring::default_provider();
    }

    fn rustls(proof: ServerProof) -> Result<ClientConfig> {
        let broken = |error: rustls::Error| {
            Error::configuration("TLS cannot be configured").with_source(error)
        };
        let provider = Arc::new(cryptography());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(broken)?;
        Ok(match proof {
            ServerProof::TrustedCertificate => builder
                .with_platform_verifier()
                .map_err(|error| {
                    Error::configuration(
                        "system trusts no certificate authority; install its CA certificates",
                    )
                    .with_source(error)
                })?
                .with_no_client_auth(),
            ServerProof::None => builder
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth(),
            ServerProof::AnyCertificate => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider)))
                .with_no_client_auth(),
        })
    }

    pub(super) fn is_untrusted(error: &(dyn StdError + 'static)) -> Option<bool> {
        let tls = error.downcast_ref::<rustls::Error>()?;
        Some(matches!(tls, rustls::Error::InvalidCertificate(_)))
    }
}

#[cfg(not(any(
    feature = "native-tls",
    feature = "rustls-aws-lc",
    feature = "rustls-ring"
)))]
mod implementation {
    use std::error::Error as StdError;

    use super::{Result, ServerProof};

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the signature of the implementations"
    )]
    pub(super) fn configure(
        client: reqwest::ClientBuilder,
        _: ServerProof,
    ) -> Result<reqwest::ClientBuilder> {
        Ok(client)
    }

    pub(super) fn is_untrusted(_: &(dyn StdError + 'static)) -> Option<bool> {
        None
    }
}
