//! The URL of a server.
//!
//! ```text
//! mongodb://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE&..
//! http://.., https://..           the same server: one port speaks both
//! mongodb://%2Frun%2Fflagstone.sock/DATABASE           a Unix socket
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How long a connection and a login may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The usual ports.
const PORT: u16 = 27017;
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Where a server is, and as whom to log in. Its text shows no password.
///
/// ```
/// use flagstone_server::client::ServerUrl;
/// let url: ServerUrl = "mongodb://ada:p%40ss@localhost/shop?connectTimeoutMS=500".parse()?;
/// assert_eq!(url.to_string(), "mongodb://ada@localhost:27017/shop");
/// assert_eq!(url.database(), Some("shop"));
/// assert!("mongodb://localhost/?readPreference".parse::<ServerUrl>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: &'static str,
    pub(super) place: Endpoint,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    pub(super) tls: Option<TlsOptions>,
    pub(super) connect: Duration,
    pub(super) silence: Option<Duration>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// How a connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsOptions {
    /// The authorities that are trusted, in PEM; `None` for those of the system.
    pub(super) ca: Option<PathBuf>,
    /// The certificate of the client and its key, in one file.
    pub(super) cert: Option<PathBuf>,
}

impl ServerUrl {
    /// Returns whether a text is meant as the URL of a server: it may be a wrong one.
    pub fn is_url(text: &str) -> bool {
        ["mongodb://", "mongodb+srv://", "http://", "https://"]
            .iter()
            .any(|scheme| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
    }

    /// Returns the database.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns the user.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns whether there is a user and no password.
    pub const fn needs_password(&self) -> bool {
        self.user.is_some() && self.password.is_none()
    }

    /// Sets the password of the user.
    pub fn set_password(&mut self, password: String) {
        self.password = Some(password);
    }

    /// Returns user and password.
    pub(super) fn credentials(&self) -> Option<(&str, &str)> {
        Some((self.user.as_deref()?, self.password.as_deref()?))
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let is = || match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{name}: expected true or false, found {value:?}")),
        };
        let time = || match value.parse() {
            Ok(0) => Ok(None),
            Ok(millis) => Ok(Some(Duration::from_millis(millis))),
            Err(_) => Err(format!("{name}: expected milliseconds, found {value:?}")),
        };
        let tls = || format!("{name} is for connections with tls=true");
        match name.to_ascii_lowercase().as_str() {
            "tls" | "ssl" => match (is()?, &self.tls) {
                (true, None) => self.tls = Some(TlsOptions::default()),
                (false, Some(_)) if self.scheme == "https" => {
                    return Err(format!("{name}=false: https is encrypted"));
                }
                (false, _) => self.tls = None,
                (true, Some(_)) => {}
            },
            "tlscafile" => self.tls.as_mut().ok_or_else(tls)?.ca = Some(value.into()),
            "tlscertificatekeyfile" => {
                self.tls.as_mut().ok_or_else(tls)?.cert = Some(value.into());
            }
            "connecttimeoutms" | "serverselectiontimeoutms" => {
                self.connect = time()?.unwrap_or(Duration::MAX);
            }
            "sockettimeoutms" => self.silence = time()?,
            "authmechanism" if value == "SCRAM-SHA-256" => {}
            // What a driver does with several connections, and says about itself: users are those
            // of the server, whatever their source is called.
            "authsource" | "appname" | "directconnection" | "replicaset" | "retrywrites"
            | "retryreads" | "maxpoolsize" | "minpoolsize" | "maxidletimems" | "loadbalanced" => {}
            _ => return Err(format!("this option is not supported: {name}={value}")),
        }
        Ok(())
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected mongodb://USER:PASSWORD@HOST:PORT/DATABASE";
        let (scheme, rest) = text.split_once("://").ok_or(expected)?;
        let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
            "mongodb" => ("mongodb", PORT),
            "http" => ("http", HTTP_PORT),
            "https" => ("https", HTTPS_PORT),
            "mongodb+srv" => {
                return Err("mongodb+srv:// is not supported: name the host, mongodb://HOST".into());
            }
            _ => return Err(expected.to_owned()),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let (user, password) = match login {
            None => (None, None),
            Some(login) => match login.split_once(':') {
                Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
                None => (Some(decoded(login)?), None),
            },
        };
        if user.as_ref().is_some_and(String::is_empty) {
            return Err("expected the name of a user before @".to_owned());
        }
        let database = database.strip_suffix('/').unwrap_or(database);
        let database = (!database.is_empty()).then(|| decoded(database)).transpose()?;
        if let Some(name) = database.as_ref().filter(|name| name.contains(['/', '.', ' ', '$'])) {
            return Err(format!("expected the name of a database after the host, found {name:?}"));
        }
        let mut url = Self {
            scheme,
            place: place(host, port)?,
            user,
            password,
            database,
            tls: (scheme == "https").then(TlsOptions::default),
            connect: CONNECT,
            silence: None,
        };
        let mut pairs = Vec::new();
        for pair in options.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("expected OPTION=VALUE after ?, found {pair:?}"))?;
            pairs.push((decoded(name)?, decoded(value)?));
        }
        // Others depend on this one.
        pairs.sort_by_key(|(name, _)| !matches!(&*name.to_ascii_lowercase(), "tls" | "ssl"));
        pairs.iter().try_for_each(|(name, value)| url.option(name, value))?;
        Ok(url)
    }
}

/// Reads a host and its port.
fn place(host: &str, port: u16) -> Result<Endpoint, String> {
    if host.contains(',') {
        return Err("expected one host, found a comma: a database has one server".to_owned());
    }
    let (name, digits) = match host.rsplit_once(':') {
        // The colons of an IPv6 address are in brackets.
        Some((name, digits)) if !digits.ends_with(']') => (name, Some(digits)),
        _ => (host, None),
    };
    let name = decoded(name)?;
    if name.starts_with('/') {
        return match digits {
            None => Ok(Endpoint::Unix(name.into())),
            Some(_) => Err(format!("expected no port after the path of a socket: {name}")),
        };
    }
    let port = match digits {
        None => port,
        Some(digits) => match digits.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("expected a port from 1 to 65535, found {digits:?}")),
        },
    };
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = inside.unwrap_or(&name).to_owned();
    if name.is_empty() || inside.is_none() && name.contains([':', '[', ']', '/']) {
        return Err(format!("expected HOST or HOST:PORT, found {host:?}"));
    }
    Ok(Endpoint::Tcp(name, port))
}

/// Decodes `%20`.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("expected two hexadecimal digits after %".to_owned());
        };
        bytes.push((high << 4 | low) as u8);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_not_utf8| "expected UTF-8 behind %".to_owned())
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.place)?;
        match &self.database {
            Some(database) => write!(f, "/{database}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> ServerUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_url_names_a_server_a_user_and_a_database() {
        for (text, shown) in [
            ("mongodb://localhost", "mongodb://localhost:27017"),
            ("MongoDB://localhost/", "mongodb://localhost:27017"),
            ("mongodb://10.0.0.1:7/shop", "mongodb://10.0.0.1:7/shop"),
            ("mongodb://[::1]/shop/", "mongodb://[::1]:27017/shop"),
            ("mongodb://[::1]:5?tls=true", "mongodb://[::1]:5"),
            ("mongodb://%2Frun%2Fa.sock/shop", "mongodb:///run/a.sock/shop"),
            ("http://host", "http://host:80"),
            ("https://host/shop", "https://host:443/shop"),
            ("mongodb://a:b:c@h", "mongodb://a@h:27017"),
        ] {
            assert_eq!(url(text).to_string(), shown, "{text}");
        }
        assert_eq!(url("mongodb://a%40b:p%2F%3a@h").credentials(), Some(("a@b", "p/:")));
        assert!(url("mongodb://a@h").needs_password() && !url("mongodb://h").needs_password());
        assert_eq!(url("https://h").tls, Some(TlsOptions::default()));
        let tls = url("mongodb://h/?tlsCAFile=%2Fca.pem&tls=true").tls.unwrap();
        assert_eq!(tls.ca, Some("/ca.pem".into()));
        assert_eq!(url("mongodb://h/?socketTimeoutMS=5").silence, Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_wrong_url_is_refused_by_what_is_wrong() {
        for (text, expected) in [
            ("localhost:27017", "mongodb://USER"),
            ("ftp://h", "mongodb://USER"),
            ("mongodb+srv://h", "name the host"),
            ("mongodb://", "HOST"),
            ("mongodb://:1", "HOST"),
            ("mongodb://h:0", "port"),
            ("mongodb://h:99999", "port"),
            ("mongodb://::1", "HOST"),
            ("mongodb://a,b/x", "one host"),
            ("mongodb://@h", "name of a user"),
            ("mongodb://h/a.b", "name of a database"),
            ("mongodb://h/a/b", "name of a database"),
            ("mongodb://h/%zz", "hexadecimal"),
            ("mongodb://%ff", "UTF-8"),
            ("mongodb://h/?a", "OPTION=VALUE"),
            ("mongodb://h/?tls=1", "true or false"),
            ("mongodb://h/?tlsCAFile=x", "tls=true"),
            ("https://h/?tls=false", "https is encrypted"),
            ("mongodb://h/?authMechanism=MONGODB-X509", "not supported: authMechanism"),
            ("mongodb://h/?readConcernLevel=majority", "not supported: readConcernLevel"),
            ("mongodb://h/?connectTimeoutMS=x", "milliseconds"),
        ] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(ServerUrl::is_url("Mongodb+srv://x") && !ServerUrl::is_url("data"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = url("mongodb://ada:secret@h/shop?appName=secret");
        assert!(!format!("{url} {url:?}").contains("secret"));
    }
}
