//! TLS: the certificate of the server, and those that clients need.

use crate::tls::{certificates, refused};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The files of a server that speaks TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those up to an authority.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities one of which must have signed the certificate of a client. `None`: clients
    /// need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// What connections are encrypted with, read from the files.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files; an error names one of them.
    pub(super) fn open(files: &TlsFiles) -> Result<Self, String> {
        Ok(Self { files: files.clone(), config: RwLock::new(load(files)?) })
    }

    /// Reads the files again, for new connections. After an error the old ones stay.
    pub(super) fn reload(&self) -> Result<(), String> {
        let config = load(&self.files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Begins the server's side of a connection.
    pub(super) fn connect(&self) -> Result<ServerConnection, rustls::Error> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        ServerConnection::new(config)
    }
}

fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| refused("a private key", &files.key, &error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| format!("{}: {error}", path.display()))?,
            )
        }
    };
    let (cert, key_file) = (files.cert.display(), files.key.display());
    let config = builder.with_single_cert(chain, key);
    config.map(Arc::new).map_err(|error| format!("{cert} with {key_file}: {error}"))
}
