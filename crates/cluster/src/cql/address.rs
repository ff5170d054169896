//! Where a keyspace is: `cql://user:password@host1,host2:9042/keyspace?rf=3&home=dc1`.

use flagstone_base::{Error, Result};

/// What an address begins with.
const SCHEME: &str = "cql://";
/// The longest name of a keyspace that Cassandra takes.
const NAME_BYTES: usize = 48;
/// The longest name of a data centre. Cassandra has no limit.
const HOME_BYTES: usize = 100;

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
    /// The data centre whose nodes alone reads and writes wait for.
    pub(super) home: Option<String>,
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
        let (mut copies, mut home) = (None, None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let is_known = match option.split_once('=') {
                Some(("rf", number)) => {
                    copies = number.parse().ok().filter(|copies| (1..=100).contains(copies));
                    copies.is_some()
                }
                Some(("home", name)) => {
                    home = is_home(name).then(|| name.to_owned());
                    home.is_some()
                }
                _ => false,
            };
            if !is_known {
                return Err(Error::invalid(format!(
                    "{option:?} in the address of a cluster: expected rf=N, N copies of each row \
                     in each data centre, or home=NAME, the data centre whose nodes reads and \
                     writes wait for"
                )));
            }
        }
        Ok(Self { hosts, keyspace: keyspace.to_owned(), user, copies, home })
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

/// Returns whether a data centre can have this name in an address and in the comment of a table.
pub(super) fn is_home(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    (1..=HOME_BYTES).contains(&name.len()) && name.bytes().all(is_part)
}

#[cold]
fn wrong(expected: &str) -> Error {
    Error::invalid(format!(
        "the address of a cluster lacks {expected}: it has the form \
         cql://[USER:PASSWORD@]HOST[:PORT][,HOST..]/KEYSPACE[?rf=N][&home=DATACENTER]"
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
        assert_eq!((address.copies, address.home), (Some(3), None));
        let address = Address::parse("cql://h/s?home=eu-west_1.a&rf=2").unwrap();
        assert_eq!((address.copies, address.home), (Some(2), Some("eu-west_1.a".into())));
        let address = Address::parse("cql://h/s").unwrap();
        assert_eq!((address.user, address.copies, address.home), (None, None, None));
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
            ("cql://h/shop?home=", "or home=NAME"),
            ("cql://h/shop?home=a'b", "or home=NAME"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let error = Address::parse("cql://me:secret%@h/shop").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
