//! Files of certificates, for both sides of a connection.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use std::path::Path;

/// Reads the certificates of a file in PEM; an error names it.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match read {
        Ok(found) if found.is_empty() => {
            Err(format!("{}: expected certificates in PEM, found none", path.display()))
        }
        read => read.map_err(|error| refused("certificates", path, &error)),
    }
}

/// Says that a file is not what was expected.
pub(crate) fn refused(what: &str, path: &Path, error: &pem::Error) -> String {
    format!("{}: expected {what} in PEM: {error}", path.display())
}
