//! TLS from the client's side: the server's certificate must be one for its name.

use super::url::TlsOptions;
use crate::tls::{certificates, refused};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An encrypted stream.
pub(super) struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsStream {
    /// Agrees with the server on keys, within `time`.
    pub(super) fn open(
        stream: TcpStream,
        time: Duration,
        host: &str,
        options: &TlsOptions,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let config = config(options)?;
        let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        let time = Some(time).filter(|time| *time < Duration::MAX);
        stream.set_read_timeout(time).map_err(|error| error.to_string())?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) => return Err(explained(&error)),
            }
        }
        Ok(Self(stream))
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
}

/// Returns the text of an error; what most first certificates are refused for, with a way out.
fn explained(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "TLS: the certificate of the server is that of an authority: expected one that was \
                made with basicConstraints=CA:FALSE, as the guide of the server shows"
            .to_owned();
    }
    format!("TLS: {text}")
}

fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(options.ca.as_deref())?);
    let Some(path) = &options.cert else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let key = PrivateKeyDer::from_pem_file(path)
        .map_err(|error| refused("a private key", path, &error))?;
    let config = builder.with_client_auth_cert(certificates(path)?, key);
    config.map(Arc::new).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the authorities of a file, or those of the system.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        for certificate in certificates(path)? {
            let added = roots.add(certificate);
            added.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    // Some systems have certificates that are no more understood.
    let _ignored = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!(
            "TLS: the system has no trusted authorities; tlsCAFile names some{why}"
        ));
    }
    Ok(roots)
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
