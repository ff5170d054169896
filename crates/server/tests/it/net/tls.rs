//! TLS, by the same library from the other side.
//!
//! The certificates are for `localhost`, for a hundred years; their authority's key is not kept.

use super::{LONG, Running, Toy, ask, ended, works};
use flagstone_server::net::{ServeOptions, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/net/certificates").join(name)
}

fn files(dir: &Path, client_ca: bool) -> TlsFiles {
    TlsFiles {
        cert: dir.join("cert.pem"),
        key: dir.join("key.pem"),
        client_ca: client_ca.then(|| file("ca.pem")),
    }
}

fn install(dir: &Path, name: &str) {
    std::fs::copy(file(&format!("{name}.pem")), dir.join("cert.pem")).unwrap();
    std::fs::copy(file(&format!("{name}.key")), dir.join("key.pem")).unwrap();
}

fn running(tls: TlsFiles) -> Running {
    let running = Running::recovering(
        ServeOptions { tls: Some(tls), ..ServeOptions::default() },
        Toy::default(),
    );
    running.server.ready(Arc::clone(&running.toy));
    running
}

fn connect(running: &Running, certificate: Option<&str>) -> Stream {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(client, running.connect())
}

fn server_certificate(stream: &Stream) -> CertificateDer<'static> {
    stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

#[test]
fn an_encrypted_client_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path(), "server");
    let running = running(files(dir.path(), false));
    let mut stream = connect(&running, None);
    works(&mut stream);
    assert!(ask(&mut stream, "large").unwrap().len() > 8 << 20);
    std::thread::sleep(Duration::from_millis(1500));
    works(&mut stream);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.set_read_timeout(Some(LONG)).unwrap();
    ended(&mut stream);
    assert!(running.log().contains("the client closed it"));
}

#[test]
fn a_client_that_does_not_encrypt_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path(), "server");
    let running = running(files(dir.path(), false));
    let mut plain = running.connect();
    let told = ask(&mut plain, "hello").unwrap();
    assert!(told.contains("expected TLS"), "{told}");
    ended(&mut plain);
    let mut plain = running.connect();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    plain.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 426 "), "{text}");
    // Neither is TLS that is damaged.
    let mut garbage = running.connect();
    garbage.write_all(&[22, 3, 1, 0, 5, 1, 2, 3, 4, 5]).unwrap();
    garbage.read_to_end(&mut Vec::new()).unwrap_or_default();
    running.wait_for("failed_tls", 3);
    works(&mut connect(&running, None));
}

#[test]
fn clients_need_a_certificate_if_there_is_an_authority_for_them() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path(), "server");
    let running = running(files(dir.path(), true));
    works(&mut connect(&running, Some("client")));
    assert_eq!(ask(&mut connect(&running, None), "ping"), None);
    running.wait_for("failed_tls", 1);
}

#[test]
fn new_connections_have_the_certificate_that_was_read_last() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path(), "server");
    let running = running(files(dir.path(), false));
    let mut old = connect(&running, None);
    works(&mut old);
    // A key that is not that of the certificate, as between two copies.
    std::fs::copy(file("renewed.pem"), dir.path().join("cert.pem")).unwrap();
    let refused = running.server.reload().unwrap_err().to_string();
    assert!(refused.contains("cert.pem") && refused.contains("key.pem"), "{refused}");
    let mut same = connect(&running, None);
    works(&mut same);
    assert_eq!(server_certificate(&same), server_certificate(&old));
    install(dir.path(), "renewed");
    running.server.reload().unwrap();
    let mut new = connect(&running, None);
    works(&mut new);
    assert_ne!(server_certificate(&new), server_certificate(&old));
    works(&mut old);
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path(), "server");
    let whole = files(dir.path(), false);
    let missing = dir.path().join("missing");
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    for (bad, name) in [
        (TlsFiles { cert: missing.clone(), ..whole.clone() }, "missing"),
        (TlsFiles { cert: empty.clone(), ..whole.clone() }, "empty"),
        (TlsFiles { key: empty.clone(), ..whole.clone() }, "empty"),
        (TlsFiles { key: whole.cert.clone(), ..whole.clone() }, "cert.pem"),
        (TlsFiles { client_ca: Some(empty), ..whole }, "empty"),
    ] {
        let options = ServeOptions { tls: Some(bad), ..ServeOptions::default() };
        let log = flagstone_server::net::Log::new(
            flagstone_server::net::LogForm::Text,
            super::Lines::default(),
        );
        let started =
            flagstone_server::net::Server::<Toy>::start(Vec::new(), options, Arc::new(log));
        let error = started.err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("expected"), "{error}");
    }
}
