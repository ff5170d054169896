//! Where a keyspace is: `cql://user:password@host1,host2:9042/keyspace?rf=3`.

use flagstone_base::{Error, Result};

/// What an address begins with.
const SCHEME: &str = "cql://";
/// The longest name of a keyspace that Cassandra takes.
const NAME_BYTES: usize = 48;

/// A keyspace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// At least one; with a port, unless it is 9042.
    pub(super) hosts: Vec<String>,
    pub(super) keyspace: String,
    /// The name of the user, and the password.
    pub(super) user: Option<(String, String)>,
    /// How many nodes of a data centre are to have each row.
    pub(super) copies: Option<u32>,
}

impl Address {
    /// # Errors
    /// InvalidInput if it has another form. The text does not repeat a password.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("cql:// at its start"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, keyspace) = rest.split_once('/').ok_or_else(|| wrong("/KEYSPACE"))?;
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(credentials(user)?), hosts),
            None => (None, place),
        };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if hosts.iter().any(String::is_empty) {
            return Err(wrong("a host, or several with commas between them"));
        }
        if !is_name(keyspace) {
            return Err(Error::invalid(format!(
                "{keyspace:?} cannot be the name of a keyspace: it is of a to z, 0 to 9 and _, \
                 begins with a letter, and has at most {NAME_BYTES} bytes"
            )));
        }
        let mut copies = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let number = option.strip_prefix("rf=").and_then(|number| number.parse().ok());
            copies = Some(number.filter(|copies| (1..=100).contains(copies)).ok_or_else(|| {
                Error::invalid(format!(
                    "{option:?} in the address of a cluster: expected rf=N, N copies of each row"
                ))
            })?);
        }
        Ok(Self { hosts, keyspace: keyspace.to_owned(), user, copies })
    }

    /// Returns the hosts as errors show them.
    pub(super) fn shown(&self) -> String {
        self.hosts.join(", ")
    }
}

/// Splits `user:password`, in which %3A and the like stand for other characters.
fn credentials(text: &str) -> Result<(String, String)> {
    let (user, password) = text.split_once(':').ok_or_else(|| wrong("USER:PASSWORD before @"))?;
    Ok((decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let byte = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.ok_or_else(|| wrong("two hexadecimal digits after each %"))?);
        bytes.extend(part.as_bytes().get(2..).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_invalid| wrong("UTF-8 before @"))
}

/// Returns whether a keyspace can have this name without quotes.
fn is_name(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    name.len() <= NAME_BYTES
        && name.bytes().next().is_some_and(|c| c.is_ascii_lowercase())
        && name.bytes().all(is_part)
}

#[cold]
fn wrong(expected: &str) -> Error {
    Error::invalid(format!(
        "the address of a cluster lacks {expected}: it has the form \
         cql://[USER:PASSWORD@]HOST[:PORT][,HOST..]/KEYSPACE[?rf=N]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read() {
        let address = Address::parse("cql://me%40x:a%3Ab@h1,h2:9043/shop?rf=3").unwrap();
        assert_eq!(address.hosts, ["h1", "h2:9043"]);
        assert_eq!(address.keyspace, "shop");
        assert_eq!(address.user, Some(("me@x".into(), "a:b".into())));
        assert_eq!(address.copies, Some(3));
        let address = Address::parse("cql://h/s").unwrap();
        assert_eq!((address.user, address.copies), (None, None));
    }

    #[test]
    fn another_form_is_refused_with_what_is_missing() {
        for (text, said) in [
            ("h/shop", "lacks cql:// at its start"),
            ("cql://h", "lacks /KEYSPACE"),
            ("cql://h,/shop", "lacks a host"),
            ("cql:///shop", "lacks a host"),
            ("cql://me@h/shop", "lacks USER:PASSWORD"),
            ("cql://me:%4@h/shop", "lacks two hexadecimal digits"),
            ("cql://me:%ff@h/shop", "lacks UTF-8"),
            ("cql://h/Shop", "\"Shop\" cannot be the name"),
            ("cql://h/1shop", "cannot be the name"),
            ("cql://h/", "cannot be the name"),
            ("cql://h/shop?rf=0", "expected rf=N"),
            ("cql://h/shop?rf=3&x=1", "\"x=1\""),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let error = Address::parse("cql://me:secret%@h/shop").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
