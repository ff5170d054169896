//! The keys that stand for a password: RFC 5802, section 3, with SHA-256.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The bytes of a key, a signature or a hash.
pub(super) const KEY_BYTES: usize = 32;
/// The bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;
/// The bytes of a new salt.
const SALT_BYTES: usize = 28;
/// How often the hash is repeated for a new user: what drivers expect from a server, some
/// milliseconds a guess.
pub(super) const ITERATIONS: u32 = 15_000;
/// The range that a stored user may have: clients refuse less (RFC 7677), and more would keep them
/// busy.
pub(crate) const ITERATIONS_ALLOWED: std::ops::RangeInclusive<u32> = 4096..=10_000_000;

pub(crate) type Key = [u8; KEY_BYTES];

/// What is signed for the keys of the two sides.
const CLIENT_KEY: &[u8] = b"Client Key";
const SERVER_KEY: &[u8] = b"Server Key";

/// What is stored of a password. A client that proves to know it needs none of it; from it alone
/// nobody can log in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
    /// The hash of the key with which the client signs.
    pub(super) stored_key: Key,
    /// The key with which the server signs.
    pub(super) server_key: Key,
}

impl Keys {
    /// Derives keys from a password that [`prepared`] returned, with a new salt.
    pub(super) fn new(password: &str) -> Result<Self, getrandom::Error> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)?;
        Ok(Self::derive(password, &salt, ITERATIONS))
    }

    /// Derives the keys of a password, a salt and a number of iterations.
    pub(super) fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salted(password, salt, iterations);
        let client_key = signature(&salted, &[CLIENT_KEY]);
        let server_key = signature(&salted, &[SERVER_KEY]);
        let stored_key = Sha256::digest(client_key).into();
        Self { salt: salt.to_vec(), iterations, stored_key, server_key }
    }

    /// Keys of a user that does not exist: always the same for a name, and no password fits them.
    pub(super) fn decoy(secret: &Key, name: &str) -> Self {
        let part = |what: &[u8]| signature(secret, &[what, name.as_bytes()]);
        Self {
            salt: part(b"salt:")[..SALT_BYTES].to_vec(),
            iterations: ITERATIONS,
            stored_key: part(b"stored key:"),
            server_key: part(b"server key:"),
        }
    }

    /// Returns whether `proof` is that of a client that knows the password and has seen these
    /// messages. Takes as long for a wrong one.
    pub(super) fn proves(&self, proof: &Key, messages: &[&[u8]]) -> bool {
        let mut client_key = signature(&self.stored_key, messages);
        for (byte, proof) in client_key.iter_mut().zip(proof) {
            *byte ^= proof;
        }
        Sha256::digest(client_key).ct_eq(&self.stored_key).into()
    }

    /// Returns whether these are the keys of `password`, as [`prepared`] returned it.
    pub(super) fn fit(&self, password: &str) -> bool {
        let other = Self::derive(password, &self.salt, self.iterations);
        self.stored_key.ct_eq(&other.stored_key).into()
    }
}

/// Derives from a password that [`prepared`] returned what all keys are derived from.
pub(crate) fn salted(password: &str, salt: &[u8], iterations: u32) -> Key {
    let mut salted = [0; KEY_BYTES];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
    salted
}

/// Returns what proves to a server that has seen these messages that a client knows the password.
pub(crate) fn proof(salted: &Key, messages: &[&[u8]]) -> Key {
    let mut proof = signature(salted, &[CLIENT_KEY]);
    let stored_key: Key = Sha256::digest(proof).into();
    for (byte, signed) in proof.iter_mut().zip(signature(&stored_key, messages)) {
        *byte ^= signed;
    }
    proof
}

/// Returns the signature by which a server proves that it knows the password.
pub(crate) fn server_signature(salted: &Key, messages: &[&[u8]]) -> Key {
    signature(&signature(salted, &[SERVER_KEY]), messages)
}

/// Signs the messages, one after the other.
pub(super) fn signature(key: &Key, messages: &[&[u8]]) -> Key {
    // HMAC fills a key up to a block with zeros.
    let mut block = [0; BLOCK_BYTES];
    block[..KEY_BYTES].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    for message in messages {
        mac.update(message);
    }
    mac.finalize().into_bytes().into()
}

/// Returns the password as clients hash it: the same text in the form that all keyboards agree on
/// (SASLprep, RFC 4013). `None` if it has characters that are refused.
pub(crate) fn prepared(password: &str) -> Option<std::borrow::Cow<'_, str>> {
    stringprep::saslprep(password).ok()
}
