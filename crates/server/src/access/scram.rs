//! The conversation in which a client proves to know a password: SCRAM-SHA-256 (RFC 5802, 7677).
//!
//! ```text
//! client: n,,n=ada,r=CLIENT                                   begins
//! server: r=CLIENT+SERVER,s=SALT,i=15000
//! client: c=biws,r=CLIENT+SERVER,p=PROOF                      one step
//! server: v=SIGNATURE
//! ```

use super::keys::{Key, Keys, signature};
use super::roles::User;
use flagstone::internal::document::{base64, put_base64};
use std::fmt;

/// The bytes of a server's nonce, before base64.
const NONCE_BYTES: usize = 24;

/// Why a client was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It asks for a mechanism that there is not.
    Mechanism(String),
    /// What it sent is not as RFC 5802 says: this was expected.
    Malformed(&'static str),
    /// There is no such user, or the password is another. Which, nobody learns.
    Wrong,
    /// Too many passwords are checked already.
    Busy,
    /// The system has no random numbers.
    Random(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mechanism(name) => {
                write!(f, "expected the mechanism SCRAM-SHA-256, found {name:?}")
            }
            Self::Malformed(expected) => write!(f, "SCRAM-SHA-256: expected {expected}"),
            Self::Wrong => f.write_str("Authentication failed."),
            Self::Busy => f.write_str("too many passwords are being checked: try again"),
            Self::Random(error) => write!(f, "no random numbers: {error}"),
        }
    }
}

impl std::error::Error for Refused {}

/// A conversation that has begun.
pub struct Conversation {
    user: User,
    keys: Keys,
    /// There is such a user.
    is_known: bool,
    /// What came before the client's first message proper, in base64: the final one repeats it.
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
    state: ScramState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScramState {
    Begun,
    Done,
    Refused,
}

impl Conversation {
    /// Takes the client's first message and returns the answer to it. `find` returns the user and
    /// whether he exists.
    pub(super) fn begin(
        payload: &[u8],
        find: impl FnOnce(&str) -> (User, Keys, bool),
    ) -> Result<(Self, Vec<u8>), Refused> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|error| Refused::Random(error.to_string()))?;
        Self::begin_with(payload, &to_base64(&random), find)
    }

    fn begin_with(
        payload: &[u8],
        server_nonce: &str,
        find: impl FnOnce(&str) -> (User, Keys, bool),
    ) -> Result<(Self, Vec<u8>), Refused> {
        let first = First::parse(text(payload)?)?;
        let (user, keys, is_known) = find(&first.name);
        let nonce = format!("{}{server_nonce}", first.nonce);
        let (salt, iterations) = (to_base64(&keys.salt), keys.iterations);
        let server_first = format!("r={nonce},s={salt},i={iterations}");
        let answer = server_first.clone().into_bytes();
        let conversation = Self {
            user,
            keys,
            is_known,
            header: to_base64(first.header.as_bytes()),
            client_first: first.bare.to_owned(),
            server_first,
            nonce,
            state: ScramState::Begun,
        };
        Ok((conversation, answer))
    }

    /// Takes the client's next message; returns whether the client is known now, and the answer.
    /// Once it is, an empty message gets an empty answer, as some clients want it.
    ///
    /// # Errors
    /// If the client does not know the password, or sends what was not expected. No further message
    /// is taken then.
    pub fn step(&mut self, payload: &[u8]) -> Result<(bool, Vec<u8>), Refused> {
        let state = std::mem::replace(&mut self.state, ScramState::Refused);
        match state {
            ScramState::Begun => {
                let answer = self.finish(text(payload)?)?;
                self.state = ScramState::Done;
                Ok((true, answer))
            }
            ScramState::Done if payload.is_empty() => {
                self.state = ScramState::Done;
                Ok((true, Vec::new()))
            }
            ScramState::Done => Err(Refused::Malformed("no more messages")),
            ScramState::Refused => Err(Refused::Wrong),
        }
    }

    /// Returns the user, once the client has proved to be it.
    pub fn user(&self) -> Option<&User> {
        (self.state == ScramState::Done).then_some(&self.user)
    }

    /// Returns the user that the client says to be.
    pub(crate) fn claimed(&self) -> &str {
        &self.user.name
    }

    fn finish(&self, message: &str) -> Result<Vec<u8>, Refused> {
        let missing = Refused::Malformed("a proof at the end: p=");
        let (unproved, proof) = message.rsplit_once(",p=").ok_or(missing)?;
        let mut fields = unproved.split(',');
        let header = fields.next().and_then(|field| field.strip_prefix("c="));
        if header != Some(&self.header) {
            return Err(Refused::Malformed("the header of the first message in base64: c="));
        }
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        if nonce != Some(&self.nonce) {
            return Err(Refused::Malformed("the nonce of this conversation: r="));
        }
        let proof = base64(proof).and_then(|proof| Key::try_from(proof).ok());
        let proof = proof.ok_or(Refused::Malformed("a proof of 32 bytes in base64: p="))?;
        let messages = [&*self.client_first, ",", &*self.server_first, ",", unproved];
        let messages = messages.map(str::as_bytes);
        // Both are computed always.
        let (proves, is_known) = (self.keys.proves(&proof, &messages), self.is_known);
        if !(proves & is_known) {
            return Err(Refused::Wrong);
        }
        let verifier = to_base64(&signature(&self.keys.server_key, &messages));
        Ok(format!("v={verifier}").into_bytes())
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conversation({:?})", self.user.name)
    }
}

/// A client's first message.
struct First<'a> {
    /// How it would bind the channel, and as whom it would act.
    header: &'a str,
    /// What comes after the header.
    bare: &'a str,
    name: String,
    nonce: &'a str,
}

impl<'a> First<'a> {
    fn parse(message: &'a str) -> Result<Self, Refused> {
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(other), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Refused::Malformed("a header that ends with the second comma: n,,"));
        };
        match flag {
            // It cannot bind the channel, or believes that the server cannot: so it is.
            "n" | "y" => {}
            _ if flag.starts_with("p=") => {
                return Err(Refused::Malformed("no channel binding, which this server lacks"));
            }
            _ => return Err(Refused::Malformed("n or y at the beginning")),
        }
        let mut fields = bare.split(',');
        let mut field = |prefix| fields.next().and_then(|field| field.strip_prefix(prefix));
        if bare.starts_with("m=") {
            return Err(Refused::Malformed("no mandatory extension: m="));
        }
        let name = field("n=").and_then(unescaped);
        let name = name.ok_or(Refused::Malformed("the name of a user: n="))?;
        let nonce = field("r=").filter(|nonce| !nonce.is_empty());
        let nonce = nonce.filter(|nonce| nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = nonce.ok_or(Refused::Malformed("a nonce of printable ASCII: r="))?;
        let acts_as = other.strip_prefix("a=").and_then(unescaped);
        if !other.is_empty() && acts_as.as_ref() != Some(&name) {
            return Err(Refused::Malformed("no other user to act as: a="));
        }
        let header = &message[..message.len() - bare.len()];
        Ok(Self { header, bare, name, nonce })
    }
}

/// Returns a name whose commas and equals signs were written as `=2C` and `=3D`.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (c, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        out.push(c);
        out.push_str(rest);
    }
    (!out.is_empty()).then_some(out)
}

fn text(payload: &[u8]) -> Result<&str, Refused> {
    str::from_utf8(payload).map_err(|_not_utf8| Refused::Malformed("text in UTF-8"))
}

fn to_base64(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    put_base64(bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keys::prepared;
    use std::sync::LazyLock;

    // The conversation of RFC 7677, section 3.
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn begin(first: &str) -> Result<(Conversation, Vec<u8>), Refused> {
        static KEYS: LazyLock<Keys> =
            LazyLock::new(|| Keys::derive("pencil", &base64(SALT).unwrap(), 4096));
        Conversation::begin_with(first.as_bytes(), SERVER_NONCE, |name| {
            (User { name: name.to_owned(), roles: Vec::new() }, KEYS.clone(), name != "eve")
        })
    }

    fn refused(first: &str) -> String {
        begin(first).err().map(|refused| refused.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_example_of_rfc_7677_holds() {
        let (mut conversation, answer) = begin(FIRST).unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), SERVER_FIRST);
        assert_eq!(conversation.user(), None);
        let (is_done, answer) = conversation.step(FINAL.as_bytes()).unwrap();
        assert!(is_done);
        assert_eq!(String::from_utf8(answer).unwrap(), SERVER_FINAL);
        assert_eq!(conversation.user().unwrap().name, "user");
        assert_eq!(conversation.step(b""), Ok((true, Vec::new())));
        // The proof is not taken twice.
        assert!(conversation.step(FINAL.as_bytes()).is_err());
        assert_eq!(conversation.user(), None);
    }

    #[test]
    fn every_change_of_a_byte_of_the_final_message_is_refused() {
        for at in 0..FINAL.len() {
            for change in 1..=u8::MAX {
                let mut changed = FINAL.as_bytes().to_vec();
                changed[at] ^= change;
                let (mut conversation, _) = begin(FIRST).unwrap();
                assert!(conversation.step(&changed).is_err(), "byte {at} ^ {change}");
                assert_eq!(conversation.step(FINAL.as_bytes()), Err(Refused::Wrong));
                assert_eq!(conversation.user(), None);
            }
        }
        for len in 0..FINAL.len() {
            let (mut conversation, _) = begin(FIRST).unwrap();
            assert!(conversation.step(&FINAL.as_bytes()[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_user_that_does_not_exist_is_refused_even_with_fitting_keys() {
        let (mut conversation, _) = begin(&FIRST.replace("n=user", "n=eve")).unwrap();
        assert!(conversation.step(FINAL.as_bytes()).is_err());
    }

    #[test]
    fn a_first_message_is_taken_as_rfc_5802_says() {
        for taken in ["n,,n=a,r=b", "y,,n=a,r=b", "n,a=a,n=a,r=b", "n,,n=a,r=b,x=more"] {
            assert_eq!(begin(taken).unwrap().0.user.name, "a", "{taken}");
        }
        assert_eq!(begin("n,,n=a=2Cb=3Dc,r=b").unwrap().0.user.name, "a,b=c");
        for (bad, expected) in [
            ("", "header"),
            ("n,", "header"),
            ("x,,n=a,r=b", "n or y"),
            ("p=tls-unique,,n=a,r=b", "channel binding"),
            ("n,a=b,n=a,r=b", "act as"),
            ("n,b,n=a,r=b", "act as"),
            ("n,,m=x,n=a,r=b", "mandatory"),
            ("n,,r=b", "name"),
            ("n,,n=,r=b", "name"),
            ("n,,n=a=2cb,r=b", "name"),
            ("n,,n=a=,r=b", "name"),
            ("n,,n=a", "nonce"),
            ("n,,n=a,r=", "nonce"),
            ("n,,n=a,r=b c", "nonce"),
            ("n,,n=a,r=\u{e4}", "nonce"),
        ] {
            assert!(refused(bad).contains(expected), "{bad:?}: {}", refused(bad));
        }
        let not_text = Conversation::begin(b"n,,n=\xFF,r=b", |_| panic!("not asked"));
        assert!(matches!(not_text, Err(Refused::Malformed(_))));
    }

    /// The header is repeated as it was sent: one that was changed on the way is noticed.
    #[test]
    fn the_final_message_repeats_the_header() {
        let (mut conversation, _) = begin(&FIRST.replacen('n', "y", 1)).unwrap();
        let error = conversation.step(FINAL.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("c="), "{error}");
    }

    #[test]
    fn passwords_are_prepared_as_clients_do() {
        // RFC 4013, section 3.
        assert_eq!(prepared("I\u{AD}X").as_deref(), Some("IX"));
        assert_eq!(prepared("\u{2168}").as_deref(), Some("IX"));
        assert_eq!(prepared("\u{7}"), None);
        assert_eq!(prepared("\u{627}\u{31}"), None);
    }
}
