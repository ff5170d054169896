//! The client's side of a login: SCRAM-SHA-256 (RFC 5802, 7677). See `access::scram` for what is
//! sent.

use crate::access::{ITERATIONS_ALLOWED, Key, prepared, proof, salted, server_signature};
use flagstone::internal::document::{base64, put_base64};
use subtle::ConstantTimeEq;

/// The bytes of a nonce, before base64.
const NONCE_BYTES: usize = 24;
/// What the client says about binding the channel: it does not. And the same in base64.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";

/// A login that has begun.
pub(super) struct ScramLogin {
    password: String,
    bare: String,
    nonce: String,
}

/// What the server must answer in the end: it knows the password, too.
pub(super) struct ServerSignature(Key);

impl ScramLogin {
    /// Begins a login. Returns the first message as well.
    ///
    /// # Errors
    /// If the system has no random numbers, or the password has characters that no password has.
    pub(super) fn begin(user: &str, password: &str) -> Result<(Self, String), String> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
        Self::begin_with(user, password, to_base64(&random))
    }

    fn begin_with(user: &str, password: &str, nonce: String) -> Result<(Self, String), String> {
        let password = prepared(password)
            .ok_or("the password has characters that are refused (SASLprep)")?
            .into_owned();
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={name},r={nonce}");
        let first = format!("{HEADER}{bare}");
        Ok((Self { password, bare, nonce }, first))
    }

    /// Returns the proof that answers the server's first message.
    ///
    /// # Errors
    /// If that is not what RFC 5802 says: what was expected.
    pub(super) fn prove(
        self,
        server_first: &str,
    ) -> Result<(String, ServerSignature), &'static str> {
        let mut fields = server_first.split(',');
        let mut field = |prefix| fields.next().and_then(|field| field.strip_prefix(prefix));
        let nonce = field("r=").filter(|nonce| {
            // The server adds to the nonce of the client.
            nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len()
        });
        let nonce = nonce.ok_or("the nonce of the client and more: r=")?;
        let salt = field("s=").and_then(base64).ok_or("a salt in base64: s=")?;
        let iterations = field("i=").and_then(|digits| digits.parse().ok());
        let iterations = iterations
            .filter(|iterations| ITERATIONS_ALLOWED.contains(iterations))
            .ok_or("4096 to 10000000 iterations: i=")?;
        let unproved = format!("c={HEADER_BASE64},r={nonce}");
        let messages = [&*self.bare, ",", server_first, ",", &*unproved].map(str::as_bytes);
        let salted = salted(&self.password, &salt, iterations);
        let proof = to_base64(&proof(&salted, &messages));
        let expected = ServerSignature(server_signature(&salted, &messages));
        Ok((format!("{unproved},p={proof}"), expected))
    }
}

impl ServerSignature {
    /// Returns whether the server's last message proves that it knows the password.
    pub(super) fn is(&self, server_final: &str) -> bool {
        let signature = server_final.strip_prefix("v=").and_then(base64);
        signature.is_some_and(|signature| bool::from(signature.ct_eq(&self.0)))
    }
}

fn to_base64(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    put_base64(bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The conversation of RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn begin(user: &str) -> (ScramLogin, String) {
        ScramLogin::begin_with(user, "pencil", NONCE.to_owned()).unwrap()
    }

    #[test]
    fn the_example_of_rfc_7677_holds() {
        let (login, first) = begin("user");
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (last, expected) = login.prove(SERVER_FIRST).unwrap();
        let proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert!(last.starts_with("c=biws,r=rOpr") && last.ends_with(proof), "{last}");
        assert!(expected.is("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        for other in ["", "v=", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G0=", "e=other"] {
            assert!(!expected.is(other), "{other}");
        }
    }

    #[test]
    fn a_server_that_does_not_keep_to_the_rules_gets_no_proof() {
        for (bad, expected) in [
            ("", "nonce"),
            ("r=other,s=W22Z,i=4096", "nonce"),
            // It has added nothing: an answer that was heard before could be sent again.
            ("r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096", "nonce"),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=*,i=4096", "salt"),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1", "iterations"),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=4000000000", "iterations"),
        ] {
            let error = begin("user").0.prove(bad).err().unwrap_or_default();
            assert!(error.contains(expected), "{bad}: {error}");
        }
        assert_eq!(begin("a,b=c").1, "n,,n=a=2Cb=3Dc,r=rOprNGfwEbeRWgbNEkqO");
        assert!(ScramLogin::begin("a", "\u{7}").is_err());
    }
}
